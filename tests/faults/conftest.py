"""Fixtures of the fault tests: figures that a test states, and a long version of each test.

`make torture` sets MAXMINCAPS_TORTURE=1. It then takes the long version of every test, prints the figures, and keeps
those of the tests that ran in docs/reliability.json and in the table of docs/reliability.md.
"""

import os
import sys
from collections import defaultdict

import pytest

from tests.faults.figures import PAGE, add, as_text, filled, keep

TORTURE = os.environ.get("MAXMINCAPS_TORTURE") == "1"
PROPERTY = "figures"
if sys.platform == "win32":  # no forks, no limits
    collect_ignore = ["test_crash.py", "test_disk.py", "test_determinism.py", "test_concurrency.py"]


@pytest.fixture
def scale():
    """Choose between the quick and the long version of a test: `scale(5, 100)`."""

    def choose(quick, long):
        return long if TORTURE else quick

    return choose


@pytest.fixture
def tally(record_property):
    """State what a test has tried, and the outcome: `tally("writes that failed", tried=120, lost=0)`.

    Numbers that the cases of a parametrized test state under the same words are added up.
    """

    def state(what: str, **figures: float | str):
        # As a property it reaches the end of the session from any process of pytest-xdist.
        record_property(PROPERTY, (what, figures))

    return state


@pytest.fixture
def readings(tmp_path):
    """A check that untrusted files in a new folder are read safely."""
    from tests.faults.readings import Readings  # the import installs an audit hook

    return Readings(tmp_path)


def pytest_terminal_summary(terminalreporter):
    """Print the figures of a long version, and keep them if no test failed."""
    if not TORTURE:
        return
    figures = defaultdict(dict)
    for report in terminalreporter.stats.get("passed", []):
        stated = [value for name, value in getattr(report, "user_properties", []) if name == PROPERTY]
        for what, numbers in stated if report.when == "call" else []:
            add(figures[report.nodeid.removeprefix("tests/faults/").partition("[")[0]], what, numbers)
    if not figures:
        return
    terminalreporter.section("figures")
    for test, stated in sorted(figures.items()):
        terminalreporter.write_line(f"{test}\n    {as_text(stated)}")
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line("not kept, as a test failed")
        return
    kept = keep(figures)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), kept["tests"]), encoding="utf-8")
