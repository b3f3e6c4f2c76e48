"""Fill the pages with the tables and figures of results/report (`make results`). Nobody types them."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "results" / "report"
BLOCK = re.compile(
    r"(<!-- results: (?P<kind>table|caption) (?P<name>[\w-]+) -->\n).*?(<!-- results: end -->)", re.DOTALL
)
FOLDERS = {"table": "tables", "caption": "figures"}
FIGURE = re.compile(r"\((?P<where>[\w./-]*images/results/(?P<name>[\w-]+\.png))\)")


def pages() -> list[Path]:
    """Return every page that may hold results."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str) -> str:
    """Return the text of a page with the tables and figure captions of the report."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{_block(found['kind'], found['name'])}\n{found[4]}", text)


def figures(page: Path) -> dict[Path, Path]:
    """Return the figures that a page shows: where the page expects each one, and its file in the report."""
    shown = FIGURE.finditer(page.read_text(encoding="utf-8"))
    return {page.parent / found["where"]: REPORT / "figures" / found["name"] for found in shown}


def _block(kind: str, name: str) -> str:
    return (REPORT / FOLDERS[kind] / f"{name}.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
        for copy, figure in figures(page).items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(figure, copy)
