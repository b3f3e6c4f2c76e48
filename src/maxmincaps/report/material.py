"""What the page is made of: the records, and the plates that are drawn from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote

from matplotlib.figure import Figure

from maxmincaps.analysis.measures import has
from maxmincaps.analysis.poll import Poll
from maxmincaps.report.selection import (
    NOT_PAPER,
    Shown,
    matched_pairs,
    name_in_files,
    planned,
    shown,
)
from maxmincaps.report.style import footnote
from maxmincaps.report.table import Table
from maxmincaps.studies.study import PAPER_SCALE, Study
from maxmincaps.studies.table import budgets_in_words, seeds_among
from maxmincaps.training.run import RunSummary

IN_THE_PAPER = ("mnist", "cifar10")
"""The datasets of figures 2 to 6."""


@dataclass(frozen=True)
class Plate:
    """A figure or a table with its words, or the words that say why it is not there."""

    name: str
    title: str
    caption: str
    content: Figure | Table | None
    command: str
    """What makes it, or would make it. Empty: no command would."""
    budget: str = ""
    """What the runs cost that it shows. Empty: it shows no runs."""
    below_paper: bool = False


@dataclass(frozen=True)
class Material:
    """The records of a folder, as the figures and tables ask for them."""

    rows: Sequence[RunSummary]
    studies: Mapping[str, Study]
    poll: Poll | None = None
    """What people said of the misclassified images, if they were asked."""
    records: Path = Path("runs")
    """The folder that the records were read from."""

    def shown(self, study: str) -> Shown:
        """Give the runs of a study that are shown."""
        return shown(self.studies[study], self.rows)

    @cached_property
    def matched_pairs(self) -> dict[str, dict[str, RunSummary]]:
        """Give the networks that figures 2 to 6 look into: of the paper's two datasets, else of the first there are."""
        # A record may have been shared without what the figures are drawn from: then others are looked into.
        every = matched_pairs(
            row for row in self.rows if has(row, "trace.safetensors") and has(row, "lengths.safetensors")
        )
        # One network alone compares nothing; it is shown where there is nothing else.
        found = {name: pair for name, pair in every.items() if len(pair) == 2} or every
        wanted = [name for name in IN_THE_PAPER if name in found]
        others = [name for name in found if name not in wanted]
        # A stand-in for MNIST is better than nothing, but is never mixed up with it: each panel bears its name.
        chosen = wanted if len(wanted) == 2 else [*wanted, *others][:2]
        return {name: found[name] for name in chosen}

    def path(self, row: RunSummary) -> str:
        """Name a run's folder as commands take it: from here or beside the records, never with a machine's own path."""
        folder = Path(row.folder).absolute()
        bases = (Path.cwd(), self.records.absolute().parent)
        base = next((base for base in bases if folder.is_relative_to(base)), folder.parent)
        return quote(folder.relative_to(base).as_posix())

    @cached_property
    def names(self) -> dict[str, str]:
        """Give each dataset of these networks a name for files that is its own, though two files be called alike."""
        names: dict[str, str] = {}
        for number, dataset in enumerate(self.matched_pairs, 1):
            name = name_in_files(dataset)
            taken = ("", "all", *names.values())  # figure-2-all is the first dataset's
            names[dataset] = f"{name}-{number}".strip("-") if name in taken else name
        return names

    @cached_property
    def of_no_study(self) -> list[RunSummary]:
        """Give the runs that somebody made beside the studies."""
        known = planned(self.studies.values(), seeds_among(self.rows))
        return [row for row in self.rows if row.fingerprint not in known]

    @cached_property
    def _paper_runs(self) -> set[str]:
        return planned(self.studies.values(), seeds_among(self.rows), PAPER_SCALE)

    def below_paper(self, rows: Iterable[RunSummary]) -> bool:
        """Tell whether any run has another budget than the paper's."""
        return any(row.fingerprint not in self._paper_runs for row in rows)

    def plate(
        self, name: str, title: str, caption: str, content: Figure | Table, command: str, rows: Sequence[RunSummary]
    ) -> Plate:
        """Make a plate of some runs; a figure carries what has to be said of them within itself."""
        below, budget = self.below_paper(rows), budgets_in_words(rows)
        if isinstance(content, Figure) and budget:
            footnote(content, budget + (f" — {NOT_PAPER}" if below else ""))
        return Plate(name, title, caption, content, command, budget, below)

    def table(self, title: str, words: str, table: Table, runs: Shown) -> Plate:
        """Make a plate of a table. It shows the paper's numbers even where there are no runs of ours."""
        below = bool(runs.rows) and self.below_paper(runs.rows)
        return Plate(table.name, title, words, table, study_command(runs), "", below)


def absent(name: str, title: str, caption: str, study: Study) -> Plate:
    """Say that a figure cannot be drawn yet, and what would make it possible."""
    return Plate(name, title, caption, None, command_for(study))


def study_command(runs: Shown) -> str:
    """Give the command that made the runs that are shown, or would make them."""
    return commands_for(runs.study, runs.scales.values())


def commands_for(study: Study, scales: Iterable[str]) -> str:
    """Give the commands that run a study at some scales, each once; without any, the one to begin with."""
    return " && ".join(command_for(study, scale) for scale in dict.fromkeys(scales)) or command_for(study)


def command_for(study: Study, scale: str | None = None) -> str:
    """Give the command that runs a study: at the scale that is shown, else at the cheapest with the paper's network."""
    scales = study.scale_names()
    cheapest = "small" if "small" in scales else scales[-1] if scales else ""
    return f"maxmincaps study run {study.name}" + (f" --scale {scale or cheapest}" if scales else "")
