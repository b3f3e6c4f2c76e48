"""Fill the pages with the tables and figures of results/report (`make results`). No number is typed by hand.

A page explains a thing once: a note that stands below an earlier table of the page is left out, and a column of
budgets becomes epochs × images, with what else belongs to a budget in one line below the table.
"""

import re
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from string import ascii_lowercase

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "results" / "report"
BLOCK = re.compile(
    r"(<!-- results: (?P<kind>table|caption) (?P<name>[\w-]+) -->\n).*?(<!-- results: end -->)", re.DOTALL
)
FOLDERS = {"table": "tables", "caption": "figures"}
FIGURE = re.compile(r"\((?P<where>[\w./-]*images/results/(?P<name>[\w-]+\.png))\)")
BUDGET = re.compile(r"(?P<epochs>\d+) epochs of (?P<images>[\d,]+) images(?:, (?P<more>.+))?")


def pages() -> list[Path]:
    """Return every page that may hold results."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str) -> str:
    """Return the text of a page with the tables and figure captions of the report."""
    notes: set[str] = set()
    return BLOCK.sub(lambda found: f"{found[1]}\n{_block(found['kind'], found['name'], notes)}\n\n{found[4]}", text)


def figures(page: Path) -> dict[Path, Path]:
    """Return the figures that a page shows: where the page expects each one, and its file in the report."""
    shown = FIGURE.finditer(page.read_text(encoding="utf-8"))
    return {page.parent / found["where"]: REPORT / "figures" / found["name"] for found in shown}


def _block(kind: str, name: str, notes: set[str]) -> str:
    """Return a table or caption without the notes that the page has already, and add its notes to them."""
    text = (REPORT / FOLDERS[kind] / f"{name}.md").read_text(encoding="utf-8").strip()
    if kind == "caption":
        return text
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("|"):
            paragraphs += with_short_budgets(paragraph)
        elif paragraph not in notes:
            notes.add(paragraph)
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def with_short_budgets(table: str) -> list[str]:
    """Return a Markdown table with its budgets as epochs × images, and the line that has the rest of them.

    A budget that all rows share becomes the line alone. Letters tell budgets of equal epochs and images apart.
    """
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    column = next((at for at, title in enumerate(rows[0]) if title in ("Budget", "Our budget")), None)
    if column is None:
        return [table]
    budgets = [row[column] for row in rows[2:]]
    if len(set(budgets)) == 1:
        return [_markdown([row[:column] + row[column + 1 :] for row in rows]), f"Budget of each run: {budgets[0]}."]
    parsed = {budget: found for budget in budgets if (found := BUDGET.fullmatch(budget))}
    if not parsed:
        return [table]
    plain = {budget: f"{found['epochs']} × {found['images']}" for budget, found in parsed.items()}
    counts, letters = Counter(plain.values()), defaultdict(lambda: iter(ascii_lowercase))
    short = {budget: name if counts[name] == 1 else f"{name} ({next(letters[name])})" for budget, name in plain.items()}
    rows[0][column] = "Epochs × images"
    for row, budget in zip(rows[2:], budgets, strict=True):
        row[column] = short.get(budget, budget)
    more = [f"{short[budget]}: {found['more']}" for budget, found in parsed.items() if found["more"]]
    return [_markdown(rows), *([f"{'; '.join(more)}."] if more else [])]


def _markdown(rows: list[list[str]]) -> str:
    """Return a Markdown table, of which the second row has the alignments, with columns of equal width."""
    widths = [max(3, *map(len, column)) for column in zip(rows[0], *rows[2:], strict=True)]
    right = [cell.endswith(":") for cell in rows[1]]
    rows = [rows[0], ["-" * (width - at) + ":" * at for width, at in zip(widths, right, strict=True)], *rows[2:]]
    lines = [
        [cell.rjust(width) if at else cell.ljust(width) for cell, width, at in zip(row, widths, right, strict=True)]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
        for copy, figure in figures(page).items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(figure, copy)
