"""The figures that the fault tests state, where they are kept, and the page that shows them."""

import json
import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "reliability.md"
KEPT = PAGE.with_suffix(".json")
ROW = re.compile(r"^\| (?P<promise>.+?) \| (?P<figures>.*?) ?\| `(?P<test>test_\w+\.py::.+?)` \|$", re.MULTILINE)
"""A row of the page: a promise, the figures beside it, and the test that states them."""

Figures = dict[str, dict[str, Any]]
"""Numbers by name, by what was counted."""


def as_text(figures: Figures) -> str:
    """Return the figures of one test as text: `writes that failed: 120 tried, 0 lost`."""
    parts = {what: ", ".join(_said(*one) for one in numbers.items()) for what, numbers in figures.items()}
    return "; ".join(f"{what}: {words}" for what, words in parts.items())


def _said(name: str, value: float | str) -> str:
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.3g}" if isinstance(value, float) else value
    return f"{number} {name.replace('_', ' ')}"


def add(figures: Figures, what: str, numbers: dict[str, Any]) -> None:
    """Add numbers to those that other cases of the same test have stated."""
    before = figures.get(what, {})
    figures[what] = before | {
        name: before[name] + value if name in before else value for name, value in numbers.items()
    }


def filled(page: str, tests: dict[str, Figures]) -> str:
    """Return the page with the figures of each row's test beside its promise."""

    def row(found: re.Match[str]) -> str:
        return f"| {found['promise']} | {as_text(tests.get(found['test'], {}))} | `{found['test']}` |"

    return ROW.sub(row, page)


def keep(figures: dict[str, Figures]) -> dict[str, Any]:
    """Replace the kept figures of the tests that ran, and return all kept figures."""
    before = json.loads(KEPT.read_text(encoding="utf-8"))["tests"] if KEPT.exists() else {}
    others = {test: stated for test, stated in before.items() if _exists(*test.split("::"))}
    kept = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "tests": dict(sorted({**others, **figures}.items())),
    }
    KEPT.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return kept


def _exists(file: str, test: str) -> bool:
    return (FOLDER / file).exists() and f"def {test}(" in (FOLDER / file).read_text(encoding="utf-8")
