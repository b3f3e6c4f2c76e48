"""A study: a table or a figure of the paper, written down as the grid of runs that it needs."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from maxmincaps.errors import InputError, check_name
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
"""What the paper's tables call the datasets."""
LONG = {
    "rotated-mnist": "Rotated MNIST (rMNIST)",
    "fashion-mnist": "Fashion-MNIST (fMNIST)",
    "background-mnist": "MNIST on photographs (bMNIST)",
}
"""The same for readers who have not met its short names yet."""
PAPER_SCALE = "paper"
"""The scale with the paper's budget."""

SMALLER_NETWORK: Mapping[str, Any] = {"conv_channels": 16, "types": 4, "decoder": (64, 128)}
"""The network of the scale `minute`: the paper's with far fewer kernels, so that a run takes seconds."""
HALF_PRECISION: Mapping[str, Any] = {"precision": "bf16"}
"""For runs of the scale `small` that one core should end within an hour and a half; it needs a processor with bf16."""


def title_of(dataset: str) -> str:
    """Give a dataset the name that the paper gives it, or its own."""
    return SHORT.get(dataset, Path(dataset).stem)


@dataclass(frozen=True)
class Line:
    """One line of a table or one point of a curve: what its runs share, under the name that the paper gives it."""

    label: str
    settings: Mapping[str, Any]
    value: float | None = None
    """Where it lies on the horizontal axis of a curve: the number of iterations, the bound."""


SOFTMAX = Line("Softmax", {"normalization": "softmax"})
MAX_MIN = Line("Max-Min", {"normalization": "max-min"})
NAMES = {line.settings["normalization"]: line.label for line in (SOFTMAX, MAX_MIN)}
"""What the paper calls the two that it compares."""


@dataclass(frozen=True)
class Budget:
    """What one run may cost, and how many there are. A scale is one or several: the first that fits a run is used."""

    epochs: int
    seeds: int = 1
    train_images: int | None = None
    """Training images. None: all."""
    test_images: int | None = None
    """Test images that each epoch is judged by; the final figures are always of all. None: all."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the study's own, such as a smaller network."""
    datasets: tuple[str, ...] = ()
    """The datasets that it is for. Empty: all of the study."""
    lines: tuple[str, ...] = ()
    """The labels of the lines that it is for. Empty: all."""
    values: tuple[float, ...] = ()
    """The places on the horizontal axis that it is for. Empty: all."""

    def fits(self, dataset: str, line: Line) -> bool:
        """Tell whether runs of this line on this dataset have this budget."""
        return (
            dataset in (self.datasets or (dataset,))
            and line.label in (self.lines or (line.label,))
            and line.value in (self.values or (line.value,))
        )

    def settings(self) -> dict[str, Any]:
        """Give what goes into the recipe."""
        return {
            "epochs": self.epochs,
            "train_images": self.train_images,
            "test_images": self.test_images,
            **self.changes,
        }

    def in_words(self, datasets: Collection[str]) -> str:
        """Say it in a line, for a study of these datasets: a budget may be shared, and be for more than those."""
        images = "all training images" if self.train_images is None else f"{self.train_images:,} training images"
        parts = [f"{pluralize(self.epochs, 'epoch')} of {images}", pluralize(self.seeds, "seed")]
        if self.test_images:
            parts.append(f"each epoch judged by {self.test_images:,} test images")
        if "conv_channels" in self.changes:
            parts.append("a smaller network than the paper's")
        if self.changes.get("precision") == "bf16":
            parts.append("large products in bf16 where the processor has it")
        own = (name for name in self.datasets if name in datasets)
        of = ", ".join([*own, *self.lines, *(f"{value:g}" for value in self.values)])
        return (f"{of}: " if of else "") + ", ".join(parts)


@dataclass(frozen=True)
class Entry:
    """One run of a study: its recipe, and the place in the table that its result belongs to."""

    line: Line
    recipe: Recipe

    def of(self, name: str) -> Any:
        """Give the value of `name`: a setting, `line` or `value`."""
        own = {"line": self.line.label, "value": self.line.value}
        return own[name] if name in own else getattr(self.recipe, check_name(name, Recipe.model_fields, "setting"))

    def has(self, name: str, wanted: Iterable[str]) -> bool:
        """Tell whether the value of `name` is one of the wanted ones, as they are written."""
        return any(_same(self.of(name), text) for text in wanted)


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
    """A table or figure of the paper: what it claims, what it reports, and which runs test it."""

    name: str
    title: str
    claim: str
    about: str
    """Claim, cost and command, in full: the docstring of the study's file."""
    paper: tuple[PaperValue, ...] = ()
    datasets: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What all its runs share."""
    scales: Mapping[str, tuple[Budget, ...]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    """What to know of a scale: which of its numbers the paper does not state."""
    borrows: "Study | None" = None
    """The study whose runs it looks at, where it trains none of its own."""
    borrowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which of those runs."""

    def entries(self, scale: str, seeds: int | None = None) -> list[Entry]:
        """Give every run of a scale, those first that are needed for a first comparison; `seeds` overrides how many."""
        if self.borrows:
            return select(self.borrows.entries(scale, seeds), self.borrowed)
        budgets = self.scales[check_name(scale, self.scales, f"scale of {self.name}")] if self.scales else ()
        found: dict[tuple[str, str], Entry] = {}
        for budget in budgets:
            for seed in range(budget.seeds if seeds is None else seeds):
                for dataset, line in product(self.datasets, self.lines):
                    if budget is _first_that_fits(budgets, dataset, line):
                        recipe = self._recipe(dataset, line, budget, seed)
                        found.setdefault((line.label, recipe.fingerprint()), Entry(line, recipe))
        return list(found.values())

    def _recipe(self, dataset: str, line: Line, budget: Budget, seed: int) -> Recipe:
        return Recipe(dataset=dataset, seed=seed, **{**self.settings, **line.settings, **budget.settings()})

    def grid(self, scale: str, seeds: int | None = None) -> list[Recipe]:
        """Give the recipes of a scale, each once."""
        return unique(entry.recipe for entry in self.entries(scale, seeds))

    def scale_names(self) -> list[str]:
        """Give the scales there are, the paper's first."""
        return list((self.borrows or self).scales)

    def reported(self, measure: str, dataset: str = "mnist", line: str = "") -> PaperValue | None:
        """Give what the paper reports, if it does."""
        found = (p for p in self.paper if (p.measure, p.dataset, p.line) == (measure, dataset, line))
        return next(found, None)


def _first_that_fits(budgets: Iterable[Budget], dataset: str, line: Line) -> Budget | None:
    return next((budget for budget in budgets if budget.fits(dataset, line)), None)


def unique(recipes: Iterable[Recipe]) -> list[Recipe]:
    """Give each recipe once, in order: what two studies share is one run."""
    return list({recipe.fingerprint(): recipe for recipe in recipes}.values())


def select(entries: Iterable[Entry], only: Mapping[str, Iterable[str]]) -> list[Entry]:
    """Keep the runs that have one of the wanted values for every name."""
    wanted = {name: tuple(values) for name, values in only.items()}
    return [entry for entry in entries if all(entry.has(name, values) for name, values in wanted.items())]


def parse_only(text: str) -> dict[str, tuple[str, ...]]:
    """Read `dataset=mnist,seed=0,seed=1`: the same name twice means either. A line's name may have commas in it.

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


def _same(found: Any, text: str) -> bool:
    if isinstance(found, bool) or found is None:
        return str(found).lower() == text.lower()
    try:
        return float(text) == float(found)
    except (TypeError, ValueError):
        return str(found).lower() == text.lower()
