"""Which runs a figure or a table shows, and what has to be said of them wherever their numbers stand."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxmincaps.analysis.compare import Interval, complete, interval, paired
from maxmincaps.recipe import IDENTITY, Recipe
from maxmincaps.report.table import NO_RESULT, NOT_RUN
from maxmincaps.studies.study import DATASETS, Study, title_of
from maxmincaps.studies.table import (
    budget_in_words,
    has_papers_budget,
    has_papers_network,
    how_many,
    shown_rows,
)
from maxmincaps.training.run import RunSummary

PAIRED = ("softmax", "max-min")
NOT_PAPER = "not the paper's budget"
NO_PARTNER = "nothing to compare it with"


@dataclass(frozen=True)
class Shown:
    """The runs of a study that count, each dataset at one scale."""

    study: Study
    scales: Mapping[str, str]
    """The scale that was chosen for each dataset."""
    rows: Sequence[RunSummary]

    def of(self, dataset: str, line: str, value: float | None = None) -> list[RunSummary]:
        """Give the runs of one line of the study, or of one point of its curve, diverged ones too."""
        return [row for row in self.rows if (row.recipe.dataset, row.line, row.value) == (dataset, line, value)]

    @property
    def below_paper(self) -> bool:
        """Whether the runs of any dataset have another budget than the paper's."""
        return not all(map(self.at_paper, self.scales))

    def at_paper(self, dataset: str) -> bool:
        """Tell whether the runs on a dataset are all that the paper has."""
        return has_papers_budget(self.study, [row for row in self.rows if row.recipe.dataset == dataset])

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what to know of the scales that are shown."""
        told = (self.study.borrows or self.study).notes
        names = dict.fromkeys(self.scales.values())
        return tuple(f"Scale {name}: {told[name]}." for name in names if name in told)


def shown(study: Study, rows: Sequence[RunSummary]) -> Shown:
    """Give the runs of a study that count, with the scales that they are of."""
    found = shown_rows(study, rows)
    return Shown(study, {row.recipe.dataset: row.scale for row in found}, found)


def mean(rows: Iterable[RunSummary], measure: Callable[[RunSummary], float]) -> Interval | None:
    """Give the mean of a measure over runs."""
    return interval(measure(row) for row in complete(rows))


def beside_the_first(
    runs: Shown, measure: Callable[[RunSummary], float]
) -> tuple[str, list[tuple[str, Sequence[float] | str]]]:
    """Name the first line of a study with one dataset, and give how far from it each other lies, seed by seed.

    A name says how many runs there are; where there is no pair of runs, words say why.
    """
    reference, *others = (line.label for line in runs.study.lines)
    (dataset,) = runs.study.datasets
    found = mean(runs.of(dataset, reference), measure)
    lines: list[tuple[str, Sequence[float] | str]] = []
    for label in others:
        own = runs.of(dataset, label)
        apart = paired(runs.rows, measure, label, reference)
        lines.append((f"{label}  (n = {how_many(own)})", apart or (NO_PARTNER if complete(own) else missing(own))))
    told = f"{reference}, {found.mean:.2f} %" if found else reference
    return f"{told}  (n = {how_many(runs.of(dataset, reference))})", lines


def missing(rows: Sequence[RunSummary]) -> str:
    """Say why there is no number of these runs."""
    return NO_RESULT if rows else NOT_RUN


def budgets(rows: Iterable[RunSummary]) -> str:
    """Say what the runs cost, each budget once."""
    return "; ".join(dict.fromkeys(budget_in_words(row) for row in rows))


def name_in_files(dataset: str) -> str:
    """Give a dataset a name for files and within pages: small letters, digits and hyphens, whatever its own name is."""
    return re.sub(r"[^a-z0-9]+", "-", title_of(dataset).lower()).strip("-")


def title_with_mark(rows: Sequence[RunSummary], dataset: str) -> str:
    """Name a dataset, and say where its images were made again by the authors' procedure."""
    return title_of(dataset) + (" (regenerated)" if any(row.regenerated for row in rows) else "")


def matched_pairs(rows: Iterable[RunSummary]) -> dict[str, dict[str, RunSummary]]:
    """Choose, for each dataset, a Softmax and a Max-Min network that were trained alike: those the figures look into.

    Of several pairs the one that is nearest to the default recipe and was trained longest is taken; where a dataset
    has no pair, a single network. Datasets are in the order of Table 1, others follow.
    """
    groups: dict[tuple[Any, ...], dict[str, RunSummary]] = {}
    for row in complete(rows):
        if row.recipe.normalization in PAIRED:
            groups.setdefault(_all_but(row, "normalization"), {})[row.recipe.normalization] = row
    best: dict[str, dict[str, RunSummary]] = {}
    for group in sorted(groups.values(), key=_nearness, reverse=True):
        best.setdefault(
            next(iter(group.values())).recipe.dataset, {name: group[name] for name in PAIRED if name in group}
        )
    order = [*DATASETS, *best]  # the paper's, then the others
    return {dataset: best[dataset] for dataset in sorted(best, key=order.index)}


def other_seeds(rows: Iterable[RunSummary], one: RunSummary) -> list[RunSummary]:
    """Give the complete runs that differ from one in the seed alone, and that one."""
    return [row for row in complete(rows) if _all_but(row, "seed") == _all_but(one, "seed")]


def _all_but(row: RunSummary, left_out: str) -> tuple[str, ...]:
    # One recipe may have been trained in another precision than it asks for, or on another draw of regenerated images.
    settings = (str(row.get(name)) for name in IDENTITY if name != left_out)
    return (*settings, row.precisions, str(row.regenerated))


def _nearness(group: Mapping[str, RunSummary]) -> tuple[Any, ...]:
    row = next(iter(group.values()))
    trained = row.recipe.epochs * (row.data.train_images or 0)
    return len(group), has_papers_network(row), -len(differences(row)), trained, -row.recipe.seed


def differences(row: RunSummary) -> dict[str, Any]:
    """Give the settings of a run that are not the default recipe's, whatever it was trained on and for how long."""
    apart = {"dataset", "normalization", "seed", "epochs", "train_images", "test_images"}
    default = Recipe().model_dump(mode="json", include=set(IDENTITY) - apart)
    ours = row.recipe.model_dump(mode="json")
    return {name: ours[name] for name, value in default.items() if ours[name] != value}


def planned(studies: Iterable[Study], seeds: int, only: str | None = None) -> set[str]:
    """Name every run that any study has, at any scale or at one alone."""
    grids = (study.grid(scale, seeds) for study in studies for scale in study.scale_names() if scale == (only or scale))
    return {recipe.fingerprint() for grid in grids for recipe in grid}
