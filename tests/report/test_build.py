"""The page of the report: all of it is there, it is well formed, and what is broken costs itself alone."""

import re
import shutil
from html import unescape
from html.parser import HTMLParser

import pytest

from maxmincaps.analysis.claims import CLAIMS
from maxmincaps.cli import main
from maxmincaps.cli.report import report
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.report.build import build
from maxmincaps.studies.table import row_of
from maxmincaps.training.run import Run
from tests.analysis.runs import write_run, write_study

NUMBERED = ["1-mnist-5k", "2", "2-all", "4", "5", "6", "7", "8", "9", "a1", "a2", "a3"]
FIGURES = [*(f"figure-{name}" for name in NUMBERED), "confusion", "bounds", "choices", "training-curves"]
FIGURES += ["test-against-training"]
TABLES = [
    "claims",
    "table-1",
    "table-1-in-short",
    "table-2",
    "table-3",
    "table-4",
    "literal",
    "all-runs",
    *(f"{name}-in-numbers" for name in ("figure-7", "figure-8", "bounds", "choices")),
]


class Tags(HTMLParser):
    """What a page consists of: its tags with their attributes, and whether each is closed."""

    VOID = ("meta", "link", "br", "use", "path", "image", "rect", "circle")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found, self.open = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(runs, studies, tmp_path_factory):
    return build(runs, tmp_path_factory.mktemp("report"), studies=studies)


def test_every_figure_and_table_is_there_without_any_weights(page, runs):
    assert not [*runs.rglob("best.safetensors"), *runs.rglob("last.safetensors")]
    assert {path.name for path in (page.parent / "figures").iterdir()} == {
        f"{name}.{ending}" for name in FIGURES for ending in ("png", "svg", "md")
    }
    assert {path.name for path in (page.parent / "tables").iterdir()} == {
        f"{name}.{ending}" for name in TABLES for ending in ("md", "tex", "csv")
    }


def test_the_page_asks_nothing_of_anybody(page):
    text = page.read_text()
    assert "://" not in text
    assert "@import" not in text
    for tag, attributes in Tags(text).found:
        assert tag not in ("script", "iframe", "img", "object", "embed")
        for name in ("href", "xlink:href", "src"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:", "figures/", "tables/"))
            if address.startswith(("figures/", "tables/")):
                assert (page.parent / address).is_file()
    assert all(url.startswith("#") for url in re.findall(r"url\(([^)]*)\)", text))


def test_the_page_is_well_formed_and_its_names_are_unique(page):
    tags = Tags(page.read_text())
    assert not tags.open
    names = [attributes["id"] for _, attributes in tags.found if "id" in attributes]
    assert len(names) == len(set(names))
    inner = [attributes["href"][1:] for _, attributes in tags.found if attributes.get("href", "").startswith("#")]
    assert set(inner) <= set(names)


def test_the_commands_under_figures_find_their_runs(page, runs, monkeypatch, capsys):
    monkeypatch.chdir(runs.parent)
    commands = re.findall(r"maxmincaps (look [a-z]+ [^\s<&]+)", page.read_text())
    assert {command.split()[1] for command in commands} == {"evolution", "rows", "outputs", "tuning"}
    for command in commands:
        with pytest.raises(SystemExit) as end:
            main(command.split())
        assert (end.value.code, capsys.readouterr().err) == (0, "")


def test_every_claim_has_the_papers_number_and_a_verdict(page):
    text = page.read_text()
    tables = re.findall(r'<table class="claims">.*?</table>', text, flags=re.DOTALL)
    claims = [row for table in tables for row in re.findall(r"<tr>.*?</tr>", table, flags=re.DOTALL)[1:]]
    cells = [re.findall(r"<t[hd].*?>(.+?)</t[hd]>", claim) for claim in claims]
    assert [unescape(sentence) for sentence, *_ in cells] == [claim.sentence for claim in CLAIMS.values()]
    for _, paper, ours, verdict in cells:
        assert paper
        assert ours
        assert re.search(r"(holds|does not hold|undecided|not enough runs)", verdict)


def test_a_figure_of_a_small_budget_says_so(page):
    for plate in re.findall(r'<figure id="plate-figure-[2-9].*?</figure>', page.read_text(), flags=re.DOTALL):
        assert "not the paper&#39;s budget" in plate or "not the paper's budget" in plate
        assert "2 epochs of 100 images" in plate


def test_the_page_has_colours_for_the_dark_and_rules_for_print(page):
    text = page.read_text()
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "width=device-width" in text
    assert "#24292f" not in text.split("</style>")[1]  # figures take the page's ink


def test_without_any_run_the_page_says_how_to_make_them(tmp_path):
    (tmp_path / "runs").mkdir()
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    for study in ("datasets", "iterations", "mnist-record", "normalizations", "bounds", "ablations", "evolution"):
        assert f"maxmincaps study run {study} --scale small" in text
    assert "Figure 1" in text
    assert "Not run yet." in text
    assert "99.55 ± 0.02" in text


def test_two_runs_of_ones_own_with_a_seed_in_the_billions_show_what_they_can(own_runs, tmp_path):
    page = build(own_runs, tmp_path / "report")
    text = page.read_text()
    shown = set(re.findall(r'id="plate-([^"]+)"', text))
    assert {"figure-2", "figure-4", "figure-5", "figure-6", "misclassified", "table-1", "all-runs"} <= shown
    assert "<b>.npz" not in text
    assert "shapes &amp; &lt;b&gt;, own recipe" in text
    assert not Tags(text).open


def test_images_that_cannot_be_had_cost_their_own_figure_alone(runs, tmp_path, monkeypatch):
    def missing(*_):
        raise InputError("mnist-5k: nobody has it")

    monkeypatch.setattr("maxmincaps.report.mistakes_chapter.images_seen", missing)
    text = build(runs, tmp_path / "report").read_text()
    assert "They cannot be drawn: mnist-5k: nobody has it." in text
    assert "Not run yet. <code>maxmincaps look misclassified" not in text
    assert {"table-2.md", "confusion.png"} <= {path.name for path in (tmp_path / "report").rglob("*")}


def test_a_chapter_that_cannot_be_drawn_is_not_called_not_run(tmp_path):
    """Its records have neither traces nor lengths nor histories."""
    write_study(tmp_path / "runs", "datasets", "small", lambda entry: 99)
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    broken = re.findall(r"<figure[^>]*>(?:(?!</figure>).)*This chapter cannot be drawn.*?</figure>", text, re.DOTALL)
    assert broken
    assert not any("Not run yet" in plate for plate in broken)


def test_a_broken_record_costs_its_own_line_and_nothing_else(own_runs, tmp_path):
    shutil.copytree(own_runs, tmp_path / "runs")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "recipe.json").write_text("{")
    (tmp_path / "runs" / "max-min" / "trace.safetensors").write_bytes(b"torn")
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    assert "is not JSON" in text
    assert "This chapter cannot be drawn" in text
    assert 'id="plate-figure-6"' in text


def test_a_copy_of_a_record_is_no_second_run(tmp_path):
    write_run(tmp_path / "runs", Recipe(epochs=4), best=0.9)
    write_run(tmp_path / "runs" / "copies", Recipe(epochs=4), best=0.9)
    build(tmp_path / "runs", tmp_path / "report")
    assert ",90.00,90.00,100.00,1,4 epochs" in (tmp_path / "report" / "tables" / "all-runs.csv").read_text()


def test_no_folder_of_runs_is_one_line(tmp_path):
    with pytest.raises(InputError, match="there is no such folder"):
        build(tmp_path / "nowhere", tmp_path / "report")


def test_the_command_says_where_the_page_is(own_runs, tmp_path, capsys, monkeypatch):
    called = []
    monkeypatch.setattr(
        "maxmincaps.cli.report.build",
        lambda *given, **named: called.append((given, named)) or tmp_path / "index.html",
    )
    report(own_runs, tmp_path, poll=tmp_path / "poll.sqlite")
    assert called == [((own_runs, tmp_path), {"poll": tmp_path / "poll.sqlite"})]
    assert str(tmp_path / "index.html") in capsys.readouterr().out


def test_numbers_of_the_page_are_those_of_the_records(page, runs, material):
    row = material.matched_pairs["mnist-5k"]["max-min"]
    assert row == row_of(Run(runs / row.name))
    csv = (page.parent / "tables" / "all-runs.csv").read_text()
    alone = [row for row in material.rows if row.recipe.relu is False]
    assert len(alone) == 1
    assert f"{100 * alone[0]['best_test_accuracy']:.2f}" in csv
