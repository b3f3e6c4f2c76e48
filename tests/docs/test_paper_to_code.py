"""From the paper to the code: every function, test and command that the page names exists."""

import re
from importlib import import_module

import pytest

from maxmincaps.cli import app
from maxmincaps.studies import STUDIES
from tests.docs.pages import ROOT

NAMED = re.findall(r"`([^`\n]+)`", (ROOT / "docs" / "paper-to-code.md").read_text(encoding="utf-8"))
FUNCTIONS = sorted({name for name in NAMED if name.startswith("maxmincaps.")})
TESTS = sorted({name for name in NAMED if name.startswith("tests/")})
COMMANDS = sorted({name for name in NAMED if name.startswith("maxmincaps ")})


def found(name):
    """Import the longest module in a dotted name, and follow the rest."""
    words = name.split(".")
    for length in range(len(words), 0, -1):
        try:
            thing = import_module(".".join(words[:length]))
        except ModuleNotFoundError:
            continue
        for word in words[length:]:
            thing = getattr(thing, word)
        return thing
    raise AssertionError(name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_on_the_page_exists(name):
    assert found(name) is not None


@pytest.mark.parametrize("name", TESTS)
def test_a_test_on_the_page_exists(name):
    path, _, test = name.partition("::")
    assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_on_the_page_exists(words):
    verb, *rest = words.split()[1:]
    command = app[verb]
    if verb in ("look", "poll"):
        assert command[rest[0]]
    if verb == "study":
        assert rest[1] in STUDIES


def test_every_study_is_on_the_page():
    on_page = " ".join(NAMED)
    without_runs = ("poll", "architecture")
    assert [name for name in STUDIES if f"study run {name}" not in on_page and name not in without_runs] == []
