"""The API pages show the examples of docstrings as code."""

import importlib.util

import pytest

from tests.docs.pages import DOCS


@pytest.fixture
def extension():
    found = importlib.util.spec_from_file_location("griffe_examples", DOCS / "griffe_examples.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("text", ["Add.\n\n>>> 1 + 1\n2\n\nMore.", "Add.\n\nExample:\n    >>> 1 + 1\n    2\n\nMore."])
def test_an_example_becomes_a_section_that_griffe_knows(extension, text):
    assert extension.with_code_blocks(text) == "Add.\n\nExamples:\n    >>> 1 + 1\n    2\n\nMore."


def test_other_text_stays(extension):
    assert extension.with_code_blocks("Shift by a >> 2.\n\nArgs:\n    a: x") == "Shift by a >> 2.\n\nArgs:\n    a: x"
