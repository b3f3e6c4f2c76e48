"""The page of promises says what the long version of these tests counted, and nothing else."""

import json

from tests.faults.figures import KEPT, PAGE, ROW, filled


def test_each_figure_of_the_page_is_the_one_that_a_test_stated():
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, json.loads(KEPT.read_text(encoding="utf-8"))["tests"]) == page


def test_each_test_that_states_figures_stands_beside_a_promise_and_each_promise_has_figures():
    rows = {found["test"] for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    assert rows == json.loads(KEPT.read_text(encoding="utf-8"))["tests"].keys()
