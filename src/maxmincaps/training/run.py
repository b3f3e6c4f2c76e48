"""The run folder: the files that a training writes. Each file is complete or absent.

recipe.json          every setting
data.json            the images: classes, shape, counts, regenerated or not
environment.json     versions, processor, threads, commit
history.jsonl        one line for each epoch
lengths.safetensors  the final class lengths, predictions and labels of every test image
trace.safetensors    logits and routing coefficients of one training image, iteration by iteration
separation.safetensors               for overlapping images: which parents the capsules serve, some reconstructions
best.safetensors, last.safetensors   weights
checkpoint.safetensors               what a run is continued from; kept after its end if the recipe says so
result.json          the outcome. It is written last: a run is complete when it exists
diverged.json        instead of an outcome: where the loss was not finite
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from maxmincaps.errors import InputError
from maxmincaps.files import file_lock, make_directory, read_text, reporting_write_errors, write_atomic
from maxmincaps.recipe import Recipe
from maxmincaps.training.schema import Divergence, Environment, EpochMetrics, RunData, RunFile, RunResult
from maxmincaps.wording import percent, pluralize

DIVERGED = "diverged.json"
SHIPPED_RUN = Path(__file__).parents[1] / "trained" / "mnist"
"""The run of the network in the package: Max-Min, trained on MNIST, its weights in half precision."""


class InUseError(InputError):
    """Another process is training in the same folder."""


@dataclass(frozen=True)
class Run:
    """A run folder, which need not exist yet. Every attribute reads its file anew, as a run may be in progress."""

    folder: Path

    @property
    def recipe(self) -> Recipe:
        """The settings of the training (recipe.json)."""
        return Recipe.from_json(self.read("recipe.json"), str(self.folder / "recipe.json"))

    @property
    def result(self) -> RunResult:
        """The outcome (result.json)."""
        return RunResult.parse(self.read("result.json"), self.folder / "result.json")

    @property
    def data(self) -> RunData:
        """The images and the size of the network (data.json)."""
        return RunData.parse(self.read("data.json"), self.folder / "data.json")

    @property
    def environment(self) -> Environment:
        """The machine and the software (environment.json)."""
        return Environment.parse(self.read("environment.json"), self.folder / "environment.json")

    @property
    def history(self) -> list[EpochMetrics]:
        """The metrics of each finished epoch (history.jsonl)."""
        path = self.folder / "history.jsonl"
        return [EpochMetrics.parse(line, path) for line in self.read(path.name).splitlines()] if path.exists() else []

    def summary(self) -> "RunSummary":
        """Read all small files of the run at once. A damaged file raises `InputError`."""
        return RunSummary(
            folder=self.folder,
            recipe=self.recipe,
            status=self.status,
            epochs_done=len(self.history),
            outcome=self.result if self.complete else None,
            images=self.data if (self.folder / "data.json").exists() else None,
            machine=self.environment if (self.folder / "environment.json").exists() else None,
        )

    @property
    def exists(self) -> bool:
        """Whether a run has been started here."""
        return (self.folder / "recipe.json").exists()

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return (self.folder / "result.json").exists()

    @property
    def diverged(self) -> bool:
        """Whether the run ended without a result, as its loss became infinite or not a number."""
        return not self.complete and (self.folder / DIVERGED).exists()

    @property
    def status(self) -> str:
        """How far the run is: complete, diverged or unfinished."""
        return "complete" if self.complete else "diverged" if self.diverged else "unfinished"

    def __str__(self) -> str:
        """Describe the run and its result in one line."""
        if not self.exists:
            return f"{self.folder}: no run"
        recipe = self.recipe
        what = f"{self.folder}: {recipe.dataset}, {recipe.normalization}, r = {recipe.iterations}, seed {recipe.seed}"
        if not self.complete:
            return f"{what}, {self.status}: {len(self.history)} of {pluralize(recipe.epochs, 'epoch')}"
        best, final = percent(self.result.best_test_accuracy), percent(self.result.final_test_accuracy)
        return f"{what}, {pluralize(self.result.epochs, 'epoch')}: best {best}, final {final}"

    def _repr_html_(self) -> str:
        return f"<b>{escape(str(self))}</b>" + history_html(self.history)

    def read(self, name: str) -> str:
        """Return the text of a file of the run.

        Raises:
            InputError: If the file is missing or cannot be read. The message says why.
        """
        try:
            return read_text(self.folder / name)
        except (FileNotFoundError, NotADirectoryError):
            raise self.missing(name) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self.folder / name}: cannot be read: {error}") from None

    def missing(self, name: str) -> InputError:
        """Return an error that explains why a file of the run is missing."""
        path = self.folder / name
        if not self.exists:
            why = "it is a file" if self.folder.is_file() else "there is no such folder"
            if inside := [str(run.folder) for run in runs_under(self.folder)]:
                more = f" and {len(inside) - 5} more" if len(inside) > 5 else ""
                why = f"it contains {', '.join(inside[:5])}{more}; choose one"
            elif self.folder.is_dir():
                why = "it has no recipe.json"
            return InputError(f"{self.folder} is not a run folder: {why}")
        if self.diverged:
            where = Divergence.parse(self.read(DIVERGED), self.folder / DIVERGED).message
            return InputError(f"{self.folder}: the run diverged ({where}) and has no {name}")
        if not self.complete:
            done = f"{len(self.history)} of {pluralize(self.recipe.epochs, 'epoch')}"
            again = f"`maxmincaps train --out {self.folder} --resume` continues it"
            return InputError(f"{self.folder}: the run is unfinished ({done}) and has no {name} yet; {again}")
        if name not in ("best.safetensors", "last.safetensors"):
            return InputError(f"{path}: there is no such file")
        for other in ("best", "last"):
            if (self.folder / f"{other}.safetensors").exists():
                return InputError(f"{path}: no such file; the run has {other}.safetensors (--weights {other})")
        again = f"`maxmincaps train --recipe {self.folder / 'recipe.json'}` trains them again"
        return InputError(f"{path}: there is no such file; runs are shared without weights, and {again}")

    def write(self, name: str, content: str | RunFile | Sequence[RunFile]) -> None:
        """Write a file atomically and durably. A sequence of models becomes JSON lines."""
        if isinstance(content, RunFile):
            content = content.to_json() + "\n"
        elif not isinstance(content, str):
            content = "".join(line.to_json(indent=None) + "\n" for line in content)
        write_atomic(self.folder / name, content.encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for training. The lock ends with its process, so it is never stale.

        Raises:
            InUseError: If another process is training here.
        """
        with ExitStack() as held:
            with reporting_write_errors(self.folder):
                make_directory(self.folder)
                refused = InUseError(f"{self.folder}: another process is training here")
                held.enter_context(file_lock(self.folder / ".lock", 0, refused))
                for lost in self.folder.glob(".*.new*"):  # temporary files of a process that was killed
                    lost.unlink()
            yield


@dataclass(frozen=True, eq=False)
class RunSummary:
    """What the small files of a run say, read once; and the place in a study that the run stands for."""

    folder: Path
    recipe: Recipe
    status: str
    """complete, diverged or unfinished."""
    epochs_done: int
    outcome: RunResult | None = None
    images: RunData | None = None
    machine: Environment | None = None
    study: str = ""
    scale: str = ""
    line: str = ""
    value: float | None = None
    """Place on the horizontal axis of a curve, such as the number of iterations."""

    @cached_property
    def fingerprint(self) -> str:
        """The recipe's fingerprint: equal recipes have equal ones."""
        return self.recipe.fingerprint()

    @property
    def name(self) -> str:
        """The name of the run folder."""
        return self.folder.name

    @property
    def complete(self) -> bool:
        """Whether the run came to its end with a result."""
        return self.outcome is not None

    @property
    def result(self) -> RunResult:
        """The outcome of a complete run."""
        if self.outcome is None:
            raise InputError(f"{self.folder}: the run is {self.status} and has no result")
        return self.outcome

    @property
    def data(self) -> RunData:
        """The images and the size of the network."""
        if self.images is None:
            raise InputError(f"{self.folder}: the run is {self.status} and has no data.json")
        return self.images

    @property
    def precisions(self) -> str:
        """The precisions that the run was computed in."""
        return self.machine.precisions if self.machine else ""

    @property
    def regenerated(self) -> bool:
        """Whether its images were regenerated by the authors' procedure."""
        return self.images is not None and self.images.regenerated

    def get(self, name: str) -> Any:
        """Return a setting of the recipe, or one of `line`, `value`, `scale` and `study`, by name."""
        return getattr(self if name in ("line", "value", "scale", "study") else self.recipe, name)

    def has(self, name: str) -> bool:
        """Return whether the run folder holds a file, or its compressed form in a small copy."""
        return (self.folder / name).exists() or (self.folder / f"{name}.xz").exists()

    def with_place(self, study: str, scale: str, line: str, value: float | None) -> "RunSummary":
        """Return a copy that stands on a line of a study. One recipe may stand on several lines."""
        return replace(self, study=study, scale=scale, line=line, value=value)


def history_html(lines: Sequence[EpochMetrics]) -> str:
    """Return the history as an HTML table."""
    shown = ("epoch", "train_loss", "running_train_accuracy", "validation_accuracy", "test_accuracy", "seconds")
    names = [name for name in shown if lines and getattr(lines[0], name) is not None]
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in names)
    rows = ("".join(f"<td>{getattr(line, name):.4g}</td>" for name in names) for line in lines)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>" if lines else ""


def runs_under(folder: Path) -> list[Run]:
    """Return every run below a folder, sorted by path."""
    return [Run(path.parent) for path in sorted(folder.rglob("recipe.json"))]
