"""A table with its formats (Markdown, LaTeX, HTML, CSV), and how numbers become cells."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from maxmincaps.analysis.measures import best_accuracy, final_accuracy
from maxmincaps.analysis.runs import Interval, RunTable
from maxmincaps.analysis.verdicts import ENOUGH
from maxmincaps.studies.study import title_of
from maxmincaps.studies.table import budget_in_words, how_many

NOT_RUN, NO_RESULT = "not run", "no result"
"""Cells without a run, and without a run that ended with a result."""
NONE = "–"
DAGGER = "†"
"""Marks numbers that were made with another budget than the paper's."""
NOT_PAPER = "not the paper's budget"
BEST_NOTE = (
    "Best: the epoch with the highest accuracy on the test set, or on the images that the budget names instead; chosen "
    "on test images, as in the paper, it is optimistic. Final: the last epoch. Both are measured on all test images, "
    "so a best epoch chosen on a subset can score below the final epoch on the full test set."
)
SD_NOTE = "± is the sample standard deviation over n runs; a single run has none."

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": r"$-$",
    "–": "--",
    "†": r"$^{\dagger}$",
    "°": r"$^{\circ}$",
    "⁺": r"$^{+}$",
    "⁻": r"$^{-}$",
    "≥": r"$\geq$",
}


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns.

    Args:
        name: Name of its files.
        caption: Text above it.
        columns: Headings.
        rows: Cells, as many per row as there are columns.
        notes: Text below it.
        words: The columns beside the first that hold text and are left-aligned; others hold numbers.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """Return the table with caption and notes as GitHub Markdown."""
        cells = [[cell.replace("|", r"\|") for cell in line] for line in (self.columns, *self.rows)]
        widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
        rule = ["-" * width if self._is_words(place) else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
        lines = [_line(_padded(line, widths, self._is_words)) for line in (cells[0], rule, *cells[1:])]
        return "\n\n".join([self.caption, "\n".join(lines), *self.notes]) + "\n"

    def to_latex(self) -> str:
        """Return the table as LaTeX for the booktabs package."""
        shape = "".join("l" if self._is_words(place) else "r" for place in range(len(self.columns)))
        head, *body = (" & ".join(map(_latex, line)) + r" \\" for line in (self.columns, *self.rows))
        notes = [rf"\par\smallskip\footnotesize {_latex(' '.join(self.notes))}"] if self.notes else []
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_latex(self.caption)}}}",
                rf"\label{{table:{self.name}}}",
                rf"\begin{{tabular}}{{{shape}}}",
                r"\toprule",
                head,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                *notes,
                r"\end{table}",
                "",
            ]
        )

    def to_html(self) -> str:
        """Return the table as HTML, without caption and notes."""
        head = "".join(
            f'<th scope="col"{self._side(place)}>{escape(name)}</th>' for place, name in enumerate(self.columns)
        )
        body = "\n".join(f"<tr>{''.join(map(self._html_cell, range(len(row)), row))}</tr>" for row in self.rows)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def to_csv(self) -> str:
        """Return columns and rows as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()

    def save(self, folder: Path) -> list[Path]:
        """Write the table as .md, .tex and .csv and return the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"md": self.to_markdown(), "tex": self.to_latex(), "csv": self.to_csv()}
        paths = [folder / f"{self.name}.{ending}" for ending in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return paths

    def _is_words(self, place: int) -> bool:
        return place == 0 or self.columns[place] in self.words

    def _side(self, place: int) -> str:
        return "" if self._is_words(place) else ' class="number"'

    def _html_cell(self, place: int, cell: str) -> str:
        if place == 0:
            return f'<th scope="row">{escape(cell)}</th>'
        missing = ' class="missing"' if cell in (NOT_RUN, NO_RESULT) else self._side(place)
        return f"<td{missing}>{escape(cell)}</td>"


def _padded(line: Sequence[str], widths: Sequence[int], is_words: Callable[[int], bool]) -> list[str]:
    return [
        cell.ljust(width) if is_words(place) else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def with_sd(found: Interval | None, mark: str = "", otherwise: str = NOT_RUN) -> str:
    """Return a mean with its standard deviation as a cell, or `otherwise` if there is none."""
    if found is None:
        return otherwise
    return f"{found.mean:.2f}" + (f" ± {found.sd:.2f}" if found.sd is not None else "") + mark


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


def budgets(runs: RunTable) -> str:
    """Return the budget of the runs in words, each once."""
    return "; ".join(dict.fromkeys(budget_in_words(run) for run in runs))


def best_and_final(runs: RunTable, mark: str = "") -> tuple[str, ...]:
    """Return the cells of best accuracy, final accuracy, n and budget."""
    best, final = (with_sd(runs.mean(measure), mark, missing(runs)) for measure in (best_accuracy, final_accuracy))
    return best, final, how_many(runs), budgets(runs) or NOT_RUN


def dataset_title(runs: RunTable, dataset: str) -> str:
    """Return the title of a dataset, marked if the images of the runs were regenerated."""
    return title_of(dataset) + (" (regenerated)" if any(run.regenerated for run in runs) else "")
