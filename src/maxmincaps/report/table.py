"""A table as a value, and its four ways out: Markdown, LaTeX, HTML, CSV."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

NOT_RUN, NO_RESULT = "not run", "no result"
"""What stands where there is no run yet, and where no run has come to a result."""

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
    """Rows of words under named columns, with a caption above and notes below."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """The columns beside the first that hold words; all others hold numbers, and stand right-aligned."""

    def to_markdown(self) -> str:
        """Give the table in GitHub's Markdown."""
        cells = [[cell.replace("|", r"\|") for cell in line] for line in (self.columns, *self.rows)]
        widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
        rule = ["-" * width if self._is_words(place) else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
        lines = [_line(_padded(line, widths, self._is_words)) for line in (cells[0], rule, *cells[1:])]
        return "\n\n".join([self.caption, "\n".join(lines), *self.notes]) + "\n"

    def to_latex(self) -> str:
        """Give the table for the booktabs package."""
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
        """Give the table alone; the page writes caption and notes around it."""
        head = "".join(
            f'<th scope="col"{self._side(place)}>{escape(name)}</th>' for place, name in enumerate(self.columns)
        )
        body = "\n".join(f"<tr>{''.join(map(self._html_cell, range(len(row)), row))}</tr>" for row in self.rows)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def to_csv(self) -> str:
        """Give rows alone, for a spreadsheet."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()

    def save(self, folder: Path) -> list[Path]:
        """Write the table as .md, .tex and .csv."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"md": self.to_markdown(), "tex": self.to_latex(), "csv": self.to_csv()}
        paths = [folder / f"{self.name}.{ending}" for ending in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
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
