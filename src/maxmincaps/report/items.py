"""What the page is made of: the runs of a folder, and the figures and tables drawn from them."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

from matplotlib.figure import Figure

from maxmincaps.analysis.poll import Poll
from maxmincaps.analysis.runs import RunTable, study_runs_by_network
from maxmincaps.recipe import IDENTITY, Recipe
from maxmincaps.report.style import footnote
from maxmincaps.report.table import NOT_PAPER, TEXTS, Table
from maxmincaps.studies.paper import LENGTHS, TRACE
from maxmincaps.studies.study import DATASETS, PAPER_SCALE, Study, title_of
from maxmincaps.studies.table import budgets_in_words, has_papers_network, seeds_among
from maxmincaps.training.run import RunSummary

IN_THE_PAPER = ("mnist", "cifar10")  # the datasets of figures 2 to 6
COMPARED = ("softmax", "max-min")
Networks = dict[str, dict[str, RunSummary]]  # for each dataset, one run of each normalization


@dataclass(frozen=True)
class PageItem:
    """A figure or table of the page with its text."""

    name: str  # its files and its anchor are called so
    title: str
    caption: str
    content: Figure | Table | None  # None if there are no runs for it, or they cannot be drawn
    command: str = ""  # the command that prints the same, or trains what is missing. Empty: there is none.
    budget: str = ""
    below_paper: bool = False  # whether a number of the paper stands beside numbers that were made with another budget


@dataclass(frozen=True)
class ReportData:
    """The runs of a folder, each once, the studies that the report covers, and the answers of a poll."""

    runs: RunTable
    studies: Mapping[str, Study]
    poll: Poll | None = None
    folder: Path = Path("runs")

    def of_study(self, name: str) -> tuple[Study, list[RunTable], RunTable, str]:
        """Return a study, its runs by size of network (the paper's first), all of them, and the command for them."""
        study = self.studies[name]
        found = study_runs_by_network(study, self.runs)
        every = RunTable(tuple(run for own in found for run in own), study)
        return study, found, every, self.study_command(study, every.scales)

    @cached_property
    def networks(self) -> Networks:
        """The runs that figures 1 to 6 look into: of the paper's two datasets, else of the first two there are."""
        # A run may have been shared without the files that the figures are drawn from.
        every = matched_networks(self.runs.filter(lambda run: run.has(TRACE) and run.has(LENGTHS)))
        found = {name: pair for name, pair in every.items() if len(pair) == 2} or every
        return {name: found[name] for name in sorted(found, key=lambda name: name not in IN_THE_PAPER)[:2]}

    @cached_property
    def file_names(self) -> dict[str, str]:
        """A unique name for files of each dataset of `networks`: lower-case letters, digits and hyphens."""
        names: dict[str, str] = {}
        for number, dataset in enumerate(self.networks, 1):
            name = re.sub(r"[^a-z0-9]+", "-", title_of(dataset).lower()).strip("-")
            names[dataset] = f"{name}-{number}".strip("-") if name in ("", *names.values()) else name
        return names

    @cached_property
    def outside_studies(self) -> RunTable:
        """The runs that belong to no study."""
        known = self._fingerprints(*(name for study in self.studies.values() for name in study.scale_names()))
        return self.runs.filter(lambda run: run.fingerprint not in known)

    def _fingerprints(self, *scales: str) -> set[str]:
        own = ((study, scale) for study in self.studies.values() for scale in study.scale_names() if scale in scales)
        grids = (study.grid(scale, seeds_among(self.runs)) for study, scale in own)
        return {recipe.fingerprint() for grid in grids for recipe in grid}

    @cached_property
    def _paper_runs(self) -> set[str]:
        return self._fingerprints(PAPER_SCALE)

    def below_paper(self, runs: Iterable[RunSummary]) -> bool:
        """Return whether any run has another budget than the paper's."""
        return any(run.fingerprint not in self._paper_runs for run in runs)

    def path(self, run: RunSummary) -> str:
        """Return the path of a run folder from the current directory, quoted for a shell."""
        return quote(os.path.relpath(run.folder))

    def study_command(self, study: Study, scales: Iterable[str] = ()) -> str:
        """Return the command that trains a study at some scales; by default the cheapest with the paper's network."""
        return " && ".join(
            f"maxmincaps study run {study.name}" + f" --scale {scale}" * bool(scale) + self._folder(" --out ")
            for scale in [*dict.fromkeys(scales)] or [study.default_scale()]
        )

    @property
    def runs_command(self) -> str:
        """The command that lists the runs of the folder."""
        return "maxmincaps runs" + self._folder(" ")

    def _folder(self, before: str) -> str:
        where = quote(os.path.relpath(self.folder))
        return "" if where == "runs" else before + where

    def look_command(self, verb: str, runs: Iterable[RunSummary]) -> str:
        """Return the commands that print the numbers of a figure, one for each run."""
        return " && ".join(f"maxmincaps look {verb} {self.path(run)}" for run in runs)

    def item(
        self,
        text: str,
        content: Figure | Table | None,
        command: str,
        runs: Sequence[RunSummary] = (),
        *,
        name: str = "",
        paper_number: bool = False,
        **words: Any,
    ) -> PageItem:
        """Return a figure or table of some runs; a figure gets their budget as a footnote.

        Args:
            text: Name of its title and caption in texts.toml.
            content: The figure or table.
            command: The command that prints or makes it.
            runs: The runs that it shows.
            name: Name of its files. Default: `text`.
            paper_number: Whether a number of the paper stands beside ours.
            words: What is filled into title and caption.
        """
        below = paper_number and bool(runs) and self.below_paper(runs)
        budget = budgets_in_words(runs) if isinstance(content, Figure) else ""
        if isinstance(content, Figure) and budget:
            footnote(content, budget + (f" — {NOT_PAPER}" if below else ""))
        title, caption = (TEXTS[text][part].format(**words) for part in ("title", "caption"))
        return PageItem(name or text, title, caption, content, command, budget, below)

    def not_run(self, name: str, title: str, study: str) -> PageItem:
        """Return the entry of a figure without runs. The page lists all of them in one line."""
        return PageItem(name, title, "", None, self.study_command(self.studies[study]))


def matched_networks(runs: RunTable) -> Networks:
    """Choose, for each dataset, a Softmax and a Max-Min run with otherwise equal settings.

    Of several pairs the one that is nearest to the default recipe and was trained longest is chosen; where a dataset
    has no pair, a single run. The paper's datasets come first, in the order of Table 1.
    """
    groups: dict[tuple[str, ...], dict[str, RunSummary]] = {}
    for run in runs.complete:
        if run.recipe.normalization in COMPARED and not run.recipe.overlap:  # the figures are of one object an image
            groups.setdefault(settings_except(run, "normalization"), {})[run.recipe.normalization] = run
    best: Networks = {}
    for group in sorted(groups.values(), key=_preference, reverse=True):
        dataset = next(iter(group.values())).recipe.dataset
        best.setdefault(dataset, {name: group[name] for name in COMPARED if name in group})
    order = [*DATASETS, *best]
    return {dataset: best[dataset] for dataset in sorted(best, key=order.index)}


def matched_pair(runs: RunTable) -> dict[str, RunSummary]:
    """Return the first Softmax and Max-Min run that differ in the normalization alone; empty if there are none."""
    groups = runs.where(normalization=COMPARED[0]).by(lambda run: settings_except(run, "normalization"))
    for settings, (first, *_) in groups.items():
        for other in runs.where(normalization=COMPARED[1]):
            if settings_except(other, "normalization") == settings:
                return dict(zip(COMPARED, (first, other), strict=True))
    return {}


def _preference(group: Mapping[str, RunSummary]) -> tuple[Any, ...]:
    run = next(iter(group.values()))
    trained = run.recipe.epochs * run.data.train_images
    return len(group), has_papers_network(run), -len(changed_settings(run)), trained, -run.recipe.seed


def other_seeds(runs: RunTable, one: RunSummary) -> RunTable:
    """Return the complete runs that differ from a run in the seed alone, that run included."""
    return runs.complete.filter(lambda run: settings_except(run, "seed") == settings_except(one, "seed"))


def settings_except(run: RunSummary, *names: str) -> tuple[str, ...]:
    """Return all settings of a run but some, its precision, and whether its images are regenerated."""
    settings = (str(getattr(run.recipe, name)) for name in IDENTITY if name not in names)
    return (*settings, run.precisions, str(run.regenerated))


def changed_settings(run: RunSummary) -> dict[str, Any]:
    """Return the settings of a run that differ from the default recipe, other than dataset and budget."""
    budget = {"dataset", "normalization", "seed", "epochs", "train_images", "test_images"}
    default = Recipe().model_dump(mode="json", include=set(IDENTITY) - budget)
    ours = run.recipe.model_dump(mode="json")
    return {name: ours[name] for name, value in default.items() if ours[name] != value}
