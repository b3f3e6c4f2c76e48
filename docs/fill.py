"""Put the tables and figures of results/report into the pages: `make results`. What stands there is never typed."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "results" / "report"
TABLE = re.compile(r"(<!-- results: table (?P<name>[\w-]+) -->\n).*?(<!-- results: end -->)", re.DOTALL)
FIGURE = re.compile(r"\((?P<where>[\w./-]*images/results/(?P<name>[\w-]+\.png))\)")


def pages() -> list[Path]:
    """Give every page that may hold results."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str) -> str:
    """Give a page's text with the tables as the report has them."""
    return TABLE.sub(lambda found: f"{found[1]}\n{_table(found['name'])}\n{found[3]}", text)


def figures(page: Path) -> dict[Path, Path]:
    """Name the report's figures that a page shows, and where it looks for them."""
    shown = FIGURE.finditer(page.read_text(encoding="utf-8"))
    return {page.parent / found["where"]: REPORT / "figures" / found["name"] for found in shown}


def _table(name: str) -> str:
    return (REPORT / "tables" / f"{name}.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
        for copy, figure in figures(page).items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(figure, copy)
