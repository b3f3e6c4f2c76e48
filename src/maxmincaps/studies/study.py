"""Studies: a table or a figure of the paper, described as the grid of runs that it needs; studies in a user's file.

A study file is Python code that assigns a `Study` to the name `STUDY`; docs/reproduce.md has an example.
"""

import importlib
import re
import runpy
import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from maxmincaps.errors import InputError, check_name, one_line
from maxmincaps.recipe import Recipe
from maxmincaps.wording import pluralize

DATASETS = ("mnist", "rotated-mnist", "fashion-mnist", "background-mnist", "cifar10")
"""The five datasets of the paper, in the order of Table 1."""
SHORT = {
    "mnist": "MNIST",
    "rotated-mnist": "rMNIST",
    "fashion-mnist": "fMNIST",
    "background-mnist": "bMNIST",
    "cifar10": "CIFAR10",
    "mnist-5k": "MNIST-5k",
}
"""The names of the datasets in the paper's tables."""
LONG = {
    "rotated-mnist": "Rotated MNIST (rMNIST)",
    "fashion-mnist": "Fashion-MNIST (fMNIST)",
    "background-mnist": "MNIST on photographs (bMNIST)",
}
"""Names for readers who do not know the short ones yet."""
PAPER_SCALE = "paper"  # the scale with the paper's budget
DEFAULT_SCALE = "small"  # the scale that a command uses if none is given and the study has it

WITH_RELU: Mapping[str, Any] = {"relu": True}
"""The paper's text has a ReLU in PrimaryCaps. Studies state it, so that they find their runs if the default changes."""
HALF_PRECISION: Mapping[str, Any] = {"precision": "bf16"}
"""Large matrix products in bf16. It needs a processor that has bf16."""


def title_of(dataset: str) -> str:
    """Return the paper's name of a dataset, or the stem of a user's own file."""
    return SHORT.get(dataset, Path(dataset).stem)


@dataclass(frozen=True)
class Line:
    """One line of a table or one point of a curve.

    Args:
        label: The name of the line in tables and figures.
        settings: Recipe settings that all runs of the line share.
        value: Place on the horizontal axis of a curve, such as the number of iterations.
    """

    label: str
    settings: Mapping[str, Any]
    value: float | None = None


SOFTMAX = Line("Softmax", {"normalization": "softmax"})
MAX_MIN = Line("Max-Min", {"normalization": "max-min"})
UNIFORM = Line("Uniform (control)", {"normalization": "uniform"})
NAMES = {line.settings["normalization"]: line.label for line in (SOFTMAX, MAX_MIN)}
"""The paper's names of the two normalizations that it compares."""


@dataclass(frozen=True)
class Budget:
    """The size of the runs of a scale. A scale is one budget or several; a run uses the first that fits it.

    Args:
        epochs: Epochs of each run.
        seeds: Number of seeds, from 0.
        train_images: Training images. None: all.
        test_images: Test images that each epoch is evaluated on. The final accuracies are always of all. None: all.
        changes: Settings that differ from the study's own, such as a smaller network.
        datasets: The datasets that the budget is for. Empty: all of the study.
        lines: The labels of the lines that it is for. Empty: all.
        values: The values of the horizontal axis that it is for. Empty: all.
    """

    epochs: int
    seeds: int = 1
    train_images: int | None = None
    test_images: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    datasets: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    values: tuple[float, ...] = ()

    def fits(self, dataset: str, line: Line) -> bool:
        """Return whether the budget is for runs of this line on this dataset."""
        return (
            dataset in (self.datasets or (dataset,))
            and line.label in (self.lines or (line.label,))
            and line.value in (self.values or (line.value,))
        )

    def settings(self) -> dict[str, Any]:
        """Return the recipe settings that the budget fixes."""
        sizes = {"epochs": self.epochs, "train_images": self.train_images, "test_images": self.test_images}
        return {**sizes, **self.changes}

    def describe(self, datasets: Collection[str]) -> str:
        """Return a one-line description for a study of these datasets. A budget may be shared by several studies."""
        fixed = self.settings()
        images = f"{fixed['train_images']:,}" if fixed["train_images"] else "all"
        parts = [f"{pluralize(self.epochs, 'epoch')} of {images} training images", pluralize(self.seeds, "seed")]
        if fixed["test_images"]:
            parts.append(f"each epoch evaluated on {fixed['test_images']:,} test images")
        if "conv_channels" in fixed:
            parts.append("a smaller network than the paper's")
        if fixed.get("precision") == "bf16":
            parts.append("large products in bf16 where the processor has it")
        own = (name for name in self.datasets if name in datasets)
        of = ", ".join([*own, *self.lines, *(f"{value:g}" for value in self.values)])
        return (f"{of}: " if of else "") + ", ".join(parts)


PAPER_AND_FULL: Mapping[str, tuple[Budget, ...]] = {
    PAPER_SCALE: (Budget(epochs=50, seeds=5),),
    "full": (Budget(epochs=20, seeds=5),),
}
"""The two largest scales of studies for which the paper states no number of epochs."""
MINUTE = Budget(
    epochs=4,
    train_images=2_000,
    test_images=1_000,
    changes={"conv_channels": 16, "types": 4, "decoder": (64, 128)},
    datasets=DATASETS,
)
"""The scale `minute` of all studies: far fewer kernels than the paper's network, so that a run takes seconds."""


@dataclass(frozen=True)
class Entry:
    """One run of a study: its recipe, and the line of the table that its result belongs to."""

    line: Line
    recipe: Recipe

    def get(self, name: str) -> Any:
        """Return the value of a setting, of `line` or of `value`."""
        own = {"line": self.line.label, "value": self.line.value}
        return own[name] if name in own else getattr(self.recipe, check_name(name, Recipe.model_fields, "setting"))


@dataclass(frozen=True)
class PaperValue:
    """A number that the paper reports."""

    measure: str
    value: float
    sd: float | None = None
    n: int | None = None
    dataset: str = "mnist"
    line: str = ""


@dataclass(frozen=True)
class Study:
    """A grid of runs that tests a claim, such as a table or a figure of the paper.

    Args:
        name: The name in commands.
        title: The table or figure of the paper. Empty: the name.
        claim: What the runs test, in one sentence.
        about: Claim, runs, measure and cost in full. Usually the docstring of the file.
        paper: The numbers that the paper reports.
        datasets: Datasets, each combined with each line.
        lines: Lines of the table. Comparisons are made with the first.
        settings: Recipe settings that all runs share.
        scales: Budgets by the name of the scale.
        notes: For each scale, what readers of its numbers must know.
        borrows: The study whose runs it uses, if it trains none of its own.
        borrowed: Which of those runs, in the form that `select` takes.
        files: Files beside the JSON files of its runs that its tables and figures need. Small copies keep them.
    """

    name: str
    title: str = ""
    claim: str = ""
    about: str = ""
    paper: tuple[PaperValue, ...] = ()
    datasets: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    scales: Mapping[str, tuple[Budget, ...]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    borrows: "Study | None" = None
    borrowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name)

    def entries(self, scale: str, seeds: int | None = None) -> list[Entry]:
        """Return the runs of a scale, those of seed 0 first.

        Args:
            scale: A name in `scales`.
            seeds: Number of seeds, instead of as many as the scale has.
        """
        if self.borrows:
            return select(self.borrows.entries(scale, seeds), self.borrowed)
        budgets = self.scales[check_name(scale, self.scales, f"scale of {self.name}")] if self.scales else ()
        found: dict[tuple[str, str], Entry] = {}
        for budget in budgets:
            for seed in range(budget.seeds if seeds is None else seeds):
                for dataset, line in product(self.datasets, self.lines):
                    if budget is next((own for own in budgets if own.fits(dataset, line)), None):
                        settings = {**self.settings, **line.settings, **budget.settings()}
                        recipe = Recipe(dataset=dataset, seed=seed, **settings)
                        found.setdefault((line.label, recipe.fingerprint()), Entry(line, recipe))
        return list(found.values())

    def grid(self, scale: str, seeds: int | None = None) -> list[Recipe]:
        """Return the distinct recipes of a scale."""
        return unique(entry.recipe for entry in self.entries(scale, seeds))

    def scale_names(self) -> list[str]:
        """Return the names of the scales, the paper's first."""
        return list((self.borrows or self).scales)

    def default_scale(self) -> str | None:
        """Return `small` if the study has it, else its last scale; None if it has no runs."""
        names = self.scale_names()
        return DEFAULT_SCALE if DEFAULT_SCALE in names else names[-1] if names else None

    def reported(self, measure: str, dataset: str = "mnist", line: str = "") -> PaperValue | None:
        """Return the number that the paper reports, or None."""
        found = (p for p in self.paper if (p.measure, p.dataset, p.line) == (measure, dataset, line))
        return next(found, None)


_DESCRIPTIONS = tomllib.loads(Path(__file__).with_name("descriptions.toml").read_text(encoding="utf-8"))


def described(name: str, **grid: Any) -> Study:
    """Return a study of the package: its title, claim, description and the paper's numbers are in descriptions.toml."""
    facts = _DESCRIPTIONS[name]
    about = _DESCRIPTIONS[facts.get("about_as", name)]["about"]
    paper = tuple(PaperValue(**value) for value in facts.get("paper", ()))
    return Study(name, facts["title"], facts["claim"], about, paper, **grid)


def is_study_file(name: str) -> bool:
    """Return whether a study is given by the path of a file rather than by its name."""
    return name.endswith(".py")


def load_study(path: Path | str) -> Study:
    """Execute a study file and return its study. Load only files that you would run with Python.

    Args:
        path: A Python file that assigns a `Study` to the name `STUDY`. Its docstring describes the study if the
            study has no description of its own.

    Raises:
        InputError: If the file is missing, raises an exception, or assigns no study.
    """
    names = import_user_module(str(path))
    study = names.get("STUDY")
    if not isinstance(study, Study):
        raise InputError(f"{path}: expected a study file that assigns a Study to the name STUDY")
    return replace(study, about=study.about or names.get("__doc__") or study.claim)


def import_user_module(name: str) -> dict[str, Any]:
    """Execute a .py file, or import a module by its name, also from the current folder, and return its names.

    Raises:
        InputError: If it cannot be imported.
    """
    try:
        if name.endswith(".py"):
            return runpy.run_path(name)
        # Only for this import: a file of the current folder must not take the place of a library's module later.
        sys.path.insert(0, str(Path.cwd()))
        try:
            return vars(importlib.import_module(name))
        finally:
            sys.path.remove(str(Path.cwd()))
    except Exception as error:
        raise InputError(f"{name}: cannot be imported: {type(error).__name__}: {one_line(error)}") from error


def unique(recipes: Iterable[Recipe]) -> list[Recipe]:
    """Return the distinct recipes, in order. A recipe that two studies share is one run."""
    return list({recipe.fingerprint(): recipe for recipe in recipes}.values())


def select(entries: Iterable[Entry], only: Mapping[str, Collection[str]]) -> list[Entry]:
    """Return the entries that have one of the given values for every name.

    Args:
        entries: Runs of a study.
        only: For each setting, `line` or `value`, the accepted values as text. See `parse_only`.
    """
    return [
        entry
        for entry in entries
        if all(any(_equals_text(entry.get(name), text) for text in texts) for name, texts in only.items())
    ]


def parse_only(text: str) -> dict[str, tuple[str, ...]]:
    """Parse `dataset=mnist,seed=0,seed=1`. The same name twice means either. The name of a line may contain commas.

    >>> parse_only("dataset=mnist,seed=0,seed=1,line=Softmax, 1 iteration")
    {'dataset': ('mnist',), 'seed': ('0', '1'), 'line': ('Softmax, 1 iteration',)}
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for part in filter(None, re.split(r",(?=[^,]*=)", text)):
        name, equals, value = (word.strip(" ,") for word in part.partition("="))
        if not equals or not value or ("," in value and name != "line"):
            raise InputError(f"--only: expected name=value,name=value, found {part!r}")
        check_name(name, ["line", "value", *Recipe.model_fields], "setting")
        wanted[name] = (*wanted.get(name, ()), value)
    return wanted


def _equals_text(found: Any, text: str) -> bool:
    if isinstance(found, bool) or found is None:
        return str(found).lower() == text.lower()
    try:
        return float(text) == float(found)
    except (TypeError, ValueError):
        return str(found).lower() == text.lower()
