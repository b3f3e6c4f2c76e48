"""A record: the folder that a run leaves. Files are the truth, and each is whole or absent.

recipe.json          every setting
data.json            what the images were: classes, shape, counts, regenerated or not
environment.json     versions, processor, threads, commit
history.jsonl        one line an epoch
steps.jsonl          one line for each of the first steps, if the recipe asks for it
lengths.safetensors  the final class lengths, predictions and labels of every test image
trace.safetensors    logits and couplings of one training image, iteration by iteration
best.safetensors, last.safetensors   weights
checkpoint.safetensors               what a stopped run continues from; gone when the run is complete
result.json          the outcome. It is written last: a record is complete when it exists
diverged.json        instead of an outcome: where the loss was not finite
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from maxmincaps.data.cache import make_folder, sync_folder, write_through
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.training.statements import Data, Divergence, Environment, Epoch, Result, Statements, Step, parsed
from maxmincaps.training.words import counted, percent

DIVERGED = "diverged.json"
TRAINED = Path(__file__).parents[1] / "trained" / "mnist"
"""The record of the network that comes with the package: Max-Min, trained on MNIST, its weights in half precision."""


class InUseError(InputError):
    """Another process is training in the same folder."""


@dataclass(frozen=True)
class Record:
    """The folder of one run."""

    folder: Path

    @property
    def recipe(self) -> Recipe:
        """What was trained."""
        return Recipe.from_json(self.read("recipe.json"), str(self.folder / "recipe.json"))

    @property
    def result(self) -> dict[str, Any]:
        """How it ended."""
        return self._said("result.json", Result)

    @property
    def data(self) -> dict[str, Any]:
        """What the images were."""
        return self._said("data.json", Data)

    @property
    def environment(self) -> dict[str, Any]:
        """Where it was trained."""
        return self._said("environment.json", Environment)

    @property
    def history(self) -> list[dict[str, Any]]:
        """What each epoch came to."""
        return self._lines("history.jsonl", Epoch)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What each of the first steps found, if the run was watched."""
        return self._lines("steps.jsonl", Step)

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
        """Say in one line what was trained and what it came to."""
        if not self.exists:
            return f"{self.folder}: no run"
        recipe = self.recipe
        what = f"{self.folder}: {recipe.dataset}, {recipe.normalization}, r = {recipe.iterations}, seed {recipe.seed}"
        if not self.complete:
            return f"{what}, {self.status}: {len(self.history)} of {counted(recipe.epochs, 'epoch')}"
        best, final = (percent(self.result[f"{kind}_test_accuracy"]) for kind in ("best", "final"))
        return f"{what}, {counted(recipe.epochs, 'epoch')}: best {best}, final {final}"

    def _repr_html_(self) -> str:
        """Show the record in a notebook."""
        return f"<b>{escape(str(self))}</b>" + history_html(self.history)

    def read(self, name: str) -> str:
        """Give a file's text."""
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise self.missing(name) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self.folder / name}: cannot be read: {error}") from None

    def missing(self, name: str) -> InputError:
        """Say why a file is not there: its run has not come to it or diverged, or there is no run, or it is lost."""
        if not self.exists:
            why = "it has no recipe.json" if self.folder.is_dir() else "there is no such folder"
            return InputError(f"{self.folder} is not the record of a run: {why}")
        if self.complete:
            why = "there is no such file"
            others = [one for one in ("best", "last") if (self.folder / f"{one}.safetensors").exists()]
            if name in ("best.safetensors", "last.safetensors") and others:
                why += f"; the record has {others[0]}.safetensors (--weights {others[0]})"
            elif name in ("best.safetensors", "last.safetensors"):
                again = f"`maxmincaps train --recipe {self.folder / 'recipe.json'}` trains them again"
                why += f"; records are shared without weights, and {again}"
            return InputError(f"{self.folder / name}: {why}")
        if self.diverged:
            where = self._said(DIVERGED, Divergence)["message"]
            return InputError(f"{self.folder}: the run diverged ({where}) and has no {name}")
        done = f"{len(self.history)} of {counted(self.recipe.epochs, 'epoch')}"
        again = f"`maxmincaps train --out {self.folder} --resume` continues it"
        return InputError(f"{self.folder}: the run is unfinished ({done}) and has no {name} yet; {again}")

    def write(self, name: str, content: bytes | str | dict[str, Any] | list[dict[str, Any]]) -> None:
        """Write a file so that it is whole or as it was before, whenever the machine stops. Lists become JSON lines."""
        if isinstance(content, dict):
            content = json.dumps(content, indent=2) + "\n"
        if isinstance(content, list):
            content = "".join(json.dumps(line) + "\n" for line in content)
        write_whole(self.folder / name, content.encode() if isinstance(content, str) else content)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time train here. The lock dies with its process, so none is ever stale."""
        lock = FileLock(self.folder / ".lock")
        with _writing(self.folder):
            make_folder(self.folder)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise InUseError(f"{self.folder}: another process is training here") from None
        try:
            with _writing(self.folder):
                for lost in self.folder.glob(".*.new*"):  # what a process that was killed had not renamed yet
                    lost.unlink()
            yield
        finally:
            with _writing(self.folder):
                lock.release()

    def _lines(self, name: str, kind: type[Statements]) -> list[dict[str, Any]]:
        path = self.folder / name
        return [parsed(line, kind, path) for line in self.read(name).splitlines()] if path.exists() else []

    def _said(self, name: str, kind: type[Statements]) -> dict[str, Any]:
        return parsed(self.read(name), kind, self.folder / name)


def history_html(lines: list[dict[str, Any]]) -> str:
    """Lay out the lines of a history as a table."""
    shown = ("epoch", "train_loss", "running_train_accuracy", "validation_accuracy", "test_accuracy", "seconds")
    names = [name for name in shown if lines and name in lines[0]]
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in names)
    rows = ("".join(f"<td>{line[name]:.4g}</td>" for name in names) for line in lines)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>" if lines else ""


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the file, under a name that no other writer has, force it to the disk, then rename it into place."""
    beside = path.with_name(f".{path.name}.new-{uuid.uuid4().hex}")
    with _writing(path):
        try:
            write_through(beside, content)
            beside.replace(path)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise
        sync_folder(path.parent)


def records_under(folder: Path) -> list[Record]:
    """Find every record below a folder, by name."""
    return [Record(path.parent) for path in sorted(folder.rglob("recipe.json"))]


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say in one line what keeps us from writing."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
