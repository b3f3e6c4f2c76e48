"""Every number in the pages has a committed run: runs make the report, and the report fills the pages."""

import importlib.util

import pytest

from maxmincaps.report.build import build
from tests.docs.pages import ROOT

RESULTS = ROOT / "results"
OF_IMAGES = {f"{name}.png" for name in ("misclassified", "figure-9", "figure-a1", "figure-a2", "figure-a3")}
"""Figures that also need test images, which run folders do not hold."""


def fill():
    """Load docs/fill.py, which is a script and no part of the package."""
    found = importlib.util.spec_from_file_location("fill", ROOT / "docs" / "fill.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


PAGES = fill().pages()


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory):
    return build(RESULTS, tmp_path_factory.mktemp("report")).parent


def tables(folder):
    return {path.name: path.read_text() for path in (folder / "tables").glob("*.md")}


def test_the_committed_tables_are_what_the_committed_runs_give(rebuilt):
    assert tables(RESULTS / "report") == tables(rebuilt)


def test_there_is_no_committed_figure_that_the_committed_runs_do_not_give(rebuilt):
    committed, given = (
        {path.name for path in (folder / "figures").glob("*.png")} for folder in (RESULTS / "report", rebuilt)
    )
    assert committed - OF_IMAGES == given - OF_IMAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_the_reports(page):
    text = page.read_text()
    assert fill().filled(text) == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_figures_of_a_page_are_the_reports(page):
    for copy, figure in fill().figures(page).items():
        assert copy.read_bytes() == figure.read_bytes()


TABLE = """\
| Line |  Best | Our budget                                 |
| ---- | ----: | ------------------------------------------ |
| a    | 98.50 | 8 epochs of 10,000 images                  |
| b    |  97.1 | 4 epochs of 10,000 images, products in bf16 |"""


def test_a_page_has_budgets_as_epochs_times_images_and_the_rest_of_them_below():
    assert fill().with_short_budgets(TABLE) == [
        "| Line |  Best | Epochs × images |\n"
        "| ---- | ----: | --------------- |\n"
        "| a    | 98.50 | 8 × 10,000      |\n"
        "| b    |  97.1 | 4 × 10,000      |",
        "4 × 10,000: products in bf16.",
    ]


def test_a_budget_that_all_rows_share_stands_below_the_table_alone():
    rows, note = fill().with_short_budgets("\n".join(TABLE.splitlines()[:3]))
    assert "budget" not in rows
    assert "8 epochs of 10,000 images" in note


def test_budgets_that_would_look_the_same_have_letters():
    rows, *notes = fill().with_short_budgets(TABLE.replace("4 epochs", "8 epochs"))
    assert "8 × 10,000 (a)" in rows
    assert "8 × 10,000 (b)" in rows
    assert notes == ["8 × 10,000 (b): products in bf16."]


def test_a_page_has_a_note_of_several_tables_once():
    text = "".join(f"<!-- results: table {name} -->\n<!-- results: end -->\n" for name in ("table-1", "table-4"))
    assert fill().filled(text).count("± is the sample standard deviation") == 1
