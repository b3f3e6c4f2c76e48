"""The examples in docstrings are true, and first lines name the action itself."""

import doctest
import re
from importlib import import_module

import pytest

from tests.docs.pages import ROOT

SOURCE = ROOT / "src"
WITH_EXAMPLES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


VAGUE = re.compile(r'"""(Gives?|Tells?|Says?|Lets?|Name|Asks?)\b')


def test_no_docstring_begins_with_a_vague_verb():
    """Return, compute, check or list say more than give, tell, say, let, name or ask."""
    folders = ("src", "tests", "examples", "research", "benchmarks", "docs")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 200
    found = {path.relative_to(ROOT): VAGUE.findall(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: verbs for path, verbs in found.items() if verbs} == {}


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_give_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert found.attempted > 0
    assert found.failed == 0
