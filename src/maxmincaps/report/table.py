"""A table with its formats (Markdown, LaTeX, HTML, CSV), and how numbers become cells."""

import csv
import io
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from maxmincaps.analysis.measures import best_accuracy, final_accuracy
from maxmincaps.analysis.runs import Interval, RunTable
from maxmincaps.analysis.verdicts import ENOUGH
from maxmincaps.studies.study import title_of
from maxmincaps.studies.table import budget_in_words, how_many

NOT_RUN, NO_RESULT = "not run", "no result"  # cells without a run, and without a run that ended with a result
NONE = "–"
DAGGER = "†"  # marks numbers that were made with another budget than the paper's
NOT_PAPER = "not the paper's budget"
TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
"""Title and caption of each figure and table by name, and notes below tables."""
BEST_NOTE, SD_NOTE, MARKED_NOTE, REGENERATED_NOTE = TEXTS["notes"].values()
OURS, DETECTABLE = "Ours (mean, 95 % interval, n)", "Smallest detectable"
WORDS = {"Normalization", "Network", "Measure", "Line", "Setting", "Differs in", "Budget", "Our budget", "Whose"}
WORDS |= {"People agree with", "The paper", OURS, DETECTABLE, "Verdict"}
"""Columns that hold text and are left-aligned, as is the first column of every table. Others hold numbers."""
LATEX = str.maketrans(
    {letter: rf"\{letter}" for letter in "&%$#_{}"}
    | {letter: rf"\text{name}{{}}" for letter, name in (("\\", "backslash"), ("~", "asciitilde"), ("^", "asciicircum"))}
    | {"±": r"$\pm$", "×": r"$\times$", "−": r"$-$", "–": "--", "†": r"$^{\dagger}$", "°": r"$^{\circ}$"}
    | {"⁺": r"$^{+}$", "⁻": r"$^{-}$", "≥": r"$\geq$"}
)


@cache
def template(name: str) -> jinja2.Template:
    """Return one of the templates beside this module; names that end in .html.jinja escape what is filled in."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("maxmincaps", "report"),
        autoescape=jinja2.select_autoescape(["html.jinja"]),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["latex"] = lambda text: str(text).translate(LATEX)
    return environment.get_template(name)


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns, with a caption above and notes below. `name` is the name of its files."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def is_text(self) -> list[bool]:
        """Whether each column holds text."""
        return [place == 0 or name in WORDS for place, name in enumerate(self.columns)]

    def to_markdown(self) -> str:
        """Return the table with caption and notes as GitHub Markdown."""
        head, *body = ([cell.replace("|", r"\|") for cell in line] for line in (self.columns, *self.rows))
        widths = [max(3, *map(len, column)) for column in zip(head, *body, strict=True)]
        rule = ["-" * (width - 1) + ("-" if text else ":") for text, width in zip(self.is_text, widths, strict=True)]
        sides = [f"{'<' if text else '>'}{width}" for text, width in zip(self.is_text, widths, strict=True)]
        lines = (" | ".join(map(format, line, sides)) for line in (head, rule, *body))
        return "\n\n".join([self.caption, "\n".join(f"| {line} |" for line in lines), *self.notes]) + "\n"

    def to_latex(self) -> str:
        """Return the table as LaTeX for the booktabs package."""
        return template("table.tex.jinja").render(table=self) + "\n"

    def to_html(self) -> str:
        """Return the table as HTML, without caption and notes."""
        return template("table.html.jinja").render(table=self, missing=(NOT_RUN, NO_RESULT))

    def to_csv(self) -> str:
        """Return columns and rows as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()

    def save(self, folder: Path) -> list[Path]:
        """Write the table as .md, .tex and .csv and return the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"md": self.to_markdown(), "tex": self.to_latex(), "csv": self.to_csv()}
        for ending, text in texts.items():
            (folder / f"{self.name}.{ending}").write_text(text, encoding="utf-8", errors="backslashreplace")
        return [folder / f"{self.name}.{ending}" for ending in texts]


def with_sd(found: Interval | None, mark: str = "", otherwise: str = NOT_RUN) -> str:
    """Return a mean with its standard deviation as a cell, or `otherwise` if there is none."""
    return otherwise if found is None else found.with_sd() + mark


def with_interval(found: Interval | None) -> str:
    """Return a mean difference with its 95 % interval and n as a cell."""
    if found is None:
        return NONE
    if found.low is None or found.high is None or found.n < ENOUGH:
        return f"{found.mean:+.2f} (n = {found.n})"
    return f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f}, n = {found.n})"


def missing(runs: RunTable) -> str:
    """Return the cell for runs without a number: not run, or no result."""
    return NO_RESULT if runs else NOT_RUN


def budgets(runs: RunTable, network: bool = True) -> str:
    """Return the budget of the runs in words, each once; `network` as in `budget_in_words`."""
    return "; ".join(dict.fromkeys(budget_in_words(run, network) for run in runs))


def best_and_final(runs: RunTable, mark: str = "") -> tuple[str, ...]:
    """Return the cells of best accuracy, final accuracy, n and budget."""
    best, final = (with_sd(runs.mean(measure), mark, missing(runs)) for measure in (best_accuracy, final_accuracy))
    return best, final, how_many(runs), budgets(runs) or NOT_RUN


def dataset_title(runs: RunTable, dataset: str) -> str:
    """Return the title of a dataset, marked if the images of the runs overlap or were regenerated."""
    overlapping = "overlapping " if any(run.recipe.overlap for run in runs) else ""
    return overlapping + title_of(dataset) + (" (regenerated)" if any(run.regenerated for run in runs) else "")
