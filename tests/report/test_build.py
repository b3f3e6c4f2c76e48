"""The page of the report: it is complete and well formed, and a damaged run affects its own part only."""

import json
import os
import re
import shutil
from html import unescape
from html.parser import HTMLParser

import pytest

from maxmincaps.analysis.claims import CLAIMS
from maxmincaps.analysis.verdicts import Verdict
from maxmincaps.cli import main
from maxmincaps.cli.runs import report
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.report.build import build
from tests.analysis.runs import make_study, write_run

NUMBERED = ["1-mnist-5k", "2", "4", "5", "6", "7", "8", "9", "a1", "a2", "a3"]
FIGURES = [*(f"figure-{name}" for name in NUMBERED), "confusion", "training-curves", "test-against-training"]
FIGURES += ["inactive-capsules", "polarisation"]
TABLES = ["claims", "table-1", "table-1-in-short", "table-2", "table-3", "table-4", "class-scores", "as-written"]
TABLES += ["as-written-compared"]
TABLES += ["all-runs", "ablations", *(f"{name}-in-numbers" for name in ("figure-7", "figure-8", "bounds"))]
TEXTS = ["claims-summary.md", "verdict-rule.md"]


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
        *TEXTS,
        *(f"{name}.{ending}" for name in TABLES for ending in ("md", "tex", "csv")),
    }


def test_the_report_page_loads_nothing_from_other_hosts(page):
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


def test_the_commands_under_figures_work_in_the_folder_in_which_the_report_was_made(page, capsys):
    commands = re.findall(r"maxmincaps (look [a-z]+ [^\s<&]+)", page.read_text())
    assert {command.split()[1] for command in commands} >= {"evolution", "rows", "outputs", "tuning"}
    for command in commands:
        with pytest.raises(SystemExit) as end:
            main(command.split())
        assert (end.value.code, capsys.readouterr().err) == (0, "")


def test_every_claim_has_the_papers_number_and_a_verdict(page):
    text = page.read_text()
    tables = re.findall(r'<table class="claims">.*?</table>', text, flags=re.DOTALL)
    claims = [row for table in tables for row in re.findall(r"<tr>.*?</tr>", table, flags=re.DOTALL)[1:]]
    cells = [re.findall(r"<t[hd].*?>(.+?)</t[hd]>", claim) for claim in claims]
    assert {unescape(sentence) for sentence, *_ in cells} == {claim.sentence for claim in CLAIMS.values()}
    for _, paper, ours, _, verdict in cells:
        assert paper
        assert ours
        assert any(known in verdict for known in Verdict)


def test_every_figure_has_its_budget_and_only_those_with_a_number_of_the_paper_are_marked(page):
    items = dict(re.findall(r'<figure id="item-([\w-]+)">(.*?)</figure>', page.read_text(), flags=re.DOTALL))
    figures = [name for name in items if re.fullmatch(r"figure-[2-9a]\d?", name)]
    assert len(figures) == 10
    for name in figures:
        assert "2 epochs of 100 images" in items[name]
    marked = {name for name, text in items.items() if "not the paper's budget</span>" in text}
    assert marked == {"table-1", "table-1-in-short", "table-2", "table-3", "table-4", "figure-9"} | {
        f"figure-a{number}" for number in (1, 2, 3)
    }


def test_the_page_has_colours_for_the_dark_and_rules_for_print(page):
    text = page.read_text()
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "width=device-width" in text
    assert "#24292f" not in text.split("</style>")[1]  # figures take the page's ink


def test_without_any_run_the_page_says_how_to_make_them(tmp_path):
    (tmp_path / "runs").mkdir()
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    for study in ("datasets", "iterations", "mnist-record", "normalizations", "bounds", "evolution"):
        assert f"maxmincaps study run {study} --scale small" in text
    assert "Figure 1" in text
    assert text.count("Not run yet") == 1, "what was not run is one line"


def test_two_runs_of_ones_own_with_a_seed_in_the_billions_show_what_they_can(own_runs, tmp_path):
    page = build(own_runs, tmp_path / "report")
    text = page.read_text()
    shown = set(re.findall(r'id="item-([^"]+)"', text))
    assert {"figure-2", "figure-4", "figure-5", "figure-6", "misclassified", "table-1", "all-runs"} <= shown
    assert "table-1-in-short" not in shown, "no dataset of the paper was run"
    assert "<b>.npz" not in text
    assert "shapes &amp; &lt;b&gt;, own recipe" in text
    assert not Tags(text).open


def test_images_that_cannot_be_had_cost_their_own_figure_alone(runs, tmp_path, monkeypatch):
    def missing(*_):
        raise InputError("mnist-5k: not available")

    monkeypatch.setattr("maxmincaps.report.record_chapter.images_seen", missing)
    text = build(runs, tmp_path / "report").read_text()
    assert "They cannot be drawn: mnist-5k: not available." in text
    assert {"class-scores.md", "confusion.png"} <= {path.name for path in (tmp_path / "report").rglob("*")}


def test_a_chapter_that_cannot_be_drawn_is_not_called_not_run(tmp_path):
    """Its runs have neither traces nor lengths nor histories."""
    make_study(tmp_path / "runs", "datasets", "small", lambda entry: 99, make=write_run)
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    broken = re.findall(r"<figure[^>]*>(?:(?!</figure>).)*This chapter cannot be drawn.*?</figure>", text, re.DOTALL)
    assert broken
    assert not any("Not run yet" in plate for plate in broken)


def test_a_damaged_run_affects_its_own_line_only(own_runs, tmp_path):
    shutil.copytree(own_runs, tmp_path / "runs")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "recipe.json").write_text("{")
    (tmp_path / "runs" / "max-min" / "trace.safetensors").write_bytes(b"torn")
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    assert "is not JSON" in text
    assert "This chapter cannot be drawn" in text
    assert 'id="item-figure-6"' in text


def test_a_copy_of_a_run_is_no_second_run(tmp_path):
    write_run(tmp_path / "runs", Recipe(epochs=4), best=0.9)
    write_run(tmp_path / "runs" / "copies", Recipe(epochs=4), best=0.9)
    build(tmp_path / "runs", tmp_path / "report")
    assert ",90.00,90.00,100.00,1," in (tmp_path / "report" / "tables" / "all-runs.csv").read_text()


def test_no_folder_of_runs_is_one_line(tmp_path):
    with pytest.raises(InputError, match="there is no such folder"):
        build(tmp_path / "nowhere", tmp_path / "report")


def test_the_command_says_where_the_page_is(own_runs, tmp_path, capsys, monkeypatch):
    called = []
    monkeypatch.setattr(
        "maxmincaps.report.build.build",
        lambda *given, **named: called.append((given, named)) or tmp_path / "index.html",
    )
    report(own_runs, tmp_path, poll=tmp_path / "poll.sqlite")
    assert called == [((own_runs, tmp_path), {"poll": tmp_path / "poll.sqlite"})]
    assert str(tmp_path / "index.html") in capsys.readouterr().out


def test_numbers_of_the_page_are_those_of_the_runs(page, data):
    csv = (page.parent / "tables" / "all-runs.csv").read_text()
    [alone] = [run for run in data.runs if run.recipe.relu is False]
    best = 100 * json.loads((alone.folder / "result.json").read_text())["best_test_accuracy"]
    assert f",{best:.2f}," in csv


def test_a_report_without_verdicts_leads_with_its_runs(own_runs, tmp_path):
    text = build(own_runs, tmp_path / "report").read_text()
    places = [text.index(f'id="{name}"') for name in ("item-all-runs", "item-table-1", "claims", "rest")]
    assert places == sorted(places)
    assert f"{len(CLAIMS)} claims are not tested yet" in text
    assert {"item-confusion", "item-class-scores"} <= set(re.findall(r'id="(item-[^"]+)"', text))


def test_a_report_with_verdicts_leads_with_them(tmp_path):
    make_study(tmp_path / "runs", "normalizations", "small", lambda entry: 99 - entry.recipe.seed, make=write_run)
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    assert text.index('id="claims"') < text.index('id="item-table-4"')
    summary = (tmp_path / "report" / "tables" / "claims-summary.md").read_text()
    counts = re.findall(r"<b>(\d+)</b>([\w ]+)</li>", text)
    assert summary == f"{len(CLAIMS)} claims: " + ", ".join(f"{count} {verdict}" for count, verdict in counts) + ".\n"


@pytest.mark.parametrize("name", [b"run-\xff", "run-\udc80".encode("utf-8", "surrogatepass")])
def test_a_folder_whose_name_is_not_unicode_does_not_prevent_the_report(own_runs, tmp_path, name):
    shutil.copytree(own_runs, tmp_path / "runs")
    (tmp_path / "runs" / "max-min").rename(tmp_path / "runs" / os.fsdecode(name))
    (tmp_path / "runs" / "broken \udcff").mkdir()
    (tmp_path / "runs" / "broken \udcff" / "recipe.json").write_text("{")
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    assert "is not JSON" in text
    assert len(re.findall("<th scope=.row.>shapes", text)) == 4, "both runs, in Table 1 and in the table of all runs"


def test_a_run_with_a_lone_surrogate_in_its_files_is_noted_and_the_other_runs_are_reported(own_runs, tmp_path):
    shutil.copytree(own_runs, tmp_path / "runs")
    for file, start in (("recipe.json", r'"dataset": "'), ("data.json", r'"classes": \[\s*"')):
        damaged = tmp_path / "runs" / f"damaged-{file}"
        shutil.copytree(own_runs / "max-min", damaged)
        text = (damaged / file).read_text()
        changed = re.sub(start, lambda found: found[0] + r"\ud800", text)
        assert changed != text
        (damaged / file).write_text(changed)
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    assert 'id="item-all-runs"' in text
    assert 'id="item-confusion"' in text
