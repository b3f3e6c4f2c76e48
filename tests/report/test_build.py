import re
import shutil
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

from maxmincaps.analysis.claims import CLAIMS
from maxmincaps.analysis.poll import Poll, Question
from maxmincaps.cli import main
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.report import chapters
from maxmincaps.report.build import build
from maxmincaps.report.chapters import accuracy, inside, others
from maxmincaps.report.learning_chapter import learning
from maxmincaps.report.material import Material
from maxmincaps.report.mistakes_chapter import mnist_record
from maxmincaps.report.selection import twins
from maxmincaps.studies import STUDIES
from maxmincaps.studies.records import row_of
from maxmincaps.training.record import Record
from maxmincaps.verbs.report import report
from tests.analysis.records import write_diverged, write_lengths, write_run, write_study

NUMBERED = ["1-mnist-5k", "2", "2-all", "4", "5", "6", "7", "8", "9", "a1", "a2", "a3"]
FIGURES = [*(f"figure-{name}" for name in NUMBERED), "confusion", "bounds", "choices", "training-curves"]
FIGURES += ["test-against-training", "first-steps-1", "rates", "options", "learning"]
TABLES = [
    "claims",
    "table-1",
    "table-1-in-short",
    "table-2",
    "table-3",
    "table-4",
    "default-by-epoch",
    "learning-by-epoch",
    "first-try",
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


def test_a_runs_folder_is_named_from_here_and_without_a_machines_own_path(rows, runs, monkeypatch):
    row = rows[0] | {"folder": str(runs / "deep down" / "run")}
    material = Material(rows, STUDIES, records=runs)
    assert material.path(row) == "'runs/deep down/run'"
    monkeypatch.chdir(runs)
    assert material.path(row) == "'deep down/run'"
    assert material.path(row | {"folder": "../runs/run"}) == "../runs/run"


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
    for study in ("datasets", "iterations", "mnist-record", "normalizations", "bounds", "choices", "evolution"):
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


def test_figure_9_shows_the_vote_that_table_2_tells(tmp_path, monkeypatch):
    """Table 2 shows the smaller scale, which is whole; of the larger one only the three that vote are there."""
    whole = write_study(tmp_path, "mnist-record", "small", lambda entry: 99)
    larger = write_study(tmp_path, "mnist-record", "full", lambda entry: 99)
    three = [larger["Max-Min", None, "mnist", seed] for seed in range(3)]
    for errors, rows in ((3, whole.values()), (1, three)):
        for row in rows:
            labels = (torch.arange(10_000) < errors).long()
            write_lengths(tmp_path / row["fingerprint"], torch.eye(1, 10).expand(10_000, 10), labels)
    images = torch.zeros(10_000, 1, 28, 28, dtype=torch.uint8)
    monkeypatch.setattr("maxmincaps.report.mistakes_chapter.test_images", lambda row: images)
    plates = {plate.name: plate for plate in mnist_record(Material([*whole.values(), *three], STUDIES))}
    told = {line[1]: line[4] for line in plates["table-2"].content.rows}
    wrong = int(re.match(r"The (\d+) images", plates["figure-9"].caption)[1])
    assert told["vote of 3, ours, seeds 0 to 2"] == f"{wrong / 100:.3f}†"
    assert plates["figure-9"].command == "maxmincaps study run misclassified --scale small"


def test_a_run_that_stands_on_two_lines_is_counted_once_and_one_that_diverged_apart(tmp_path):
    rows = write_study(tmp_path, "bounds", "full", lambda entry: 99)
    write_diverged(rows, ("start value", 0.1, "mnist", 0))
    plates = {plate.name: plate for plate in others(Material(list(rows.values()), STUDIES))}
    assert plates["bounds"].budget.endswith("(runs: 64 and 1 diverged)")
    cells, budget = ("99.00 ± 0.00",) * 5, "20 epochs"
    assert plates["bounds-in-numbers"].content.rows == (
        ("MNIST", "upper bound q", *cells, "5", budget),
        ("MNIST", "upper bound q, W kept", *cells, "5", budget),
        ("MNIST", "start value", *cells, "5 or 4 and 1 diverged", budget),
    )


def test_a_choice_without_a_result_keeps_its_line_and_one_with_seeds_of_its_own_is_compared_by_shared_ones(tmp_path):
    def accuracy(entry):
        return 99 - entry.recipe.seed - 0.5 * (entry.line.label == "reconstruction 20×")

    rows = write_study(tmp_path, "choices", "small", accuracy, seeds=3)
    write_diverged(rows, *[("no ReLU", None, "mnist", seed) for seed in range(3)])
    kept = [
        row
        for (label, _, _, seed), row in rows.items()
        if label != "uniform couplings" and (label, seed) != ("reconstruction 20×", 2)
    ]
    plates = {plate.name: plate for plate in others(Material(kept, STUDIES))}
    (axes,) = plates["choices"].content.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "default, 98.00 %  (n = 3)"
    told = {names[text.get_position()[1]]: text.get_text() for text in axes.texts}
    assert told == {"no ReLU  (n = 0 and 3 diverged)": "no result", "uniform couplings  (n = 0)": "not run"}
    drawn = {names[line.get_ydata()[0]]: line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"}
    assert drawn["reconstruction 20×  (n = 2)"] == pytest.approx(-0.5)
    assert plates["choices-in-numbers"].content.rows[0][:4] == ("default", "98.00 ± 1.00", "98.00 ± 1.00", "3")


def test_a_history_with_epochs_missing_is_wrong_input_and_costs_its_chapter_alone(tmp_path):
    rows = list(write_study(tmp_path, "learning", "small", lambda entry: 99).values())
    line = {"test_accuracy": 0.9, "running_train_accuracy": 0.9, "dead_children": 0.1}
    for row in rows:
        Record(Path(row["folder"])).write("history.jsonl", [line] * 8)
    assert learning(Material(rows, STUDIES))
    Record(Path(rows[0]["folder"])).write("history.jsonl", [line] * 7)
    with pytest.raises(InputError, match=r"history\.jsonl: expected 8 epochs, found 7"):
        learning(Material(rows, STUDIES))


def test_a_chapter_that_cannot_be_drawn_is_not_called_not_run(tmp_path):
    """Its records have neither traces nor lengths nor histories."""
    write_study(tmp_path / "runs", "datasets", "small", lambda entry: 99)
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    broken = re.findall(r"<figure[^>]*>(?:(?!</figure>).)*This chapter cannot be drawn.*?</figure>", text, re.DOTALL)
    assert broken
    assert not any("Not run yet" in plate for plate in broken)


def test_what_people_said_of_networks_that_nobody_can_name_is_not_taken_for_the_papers_budget():
    asked = Question(7, 1, 3, np.zeros(10), np.zeros((1, 28, 28), np.uint8), np.arange(10))
    poll = Poll("mnist-5k", tuple("0123456789"), 3, True, (asked,), 45, 45)
    table_3 = next(plate for plate in mnist_record(Material([], STUDIES, poll)) if plate.name == "table-3")
    assert table_3.below_paper
    assert table_3.content.rows[-1][:2] == ("#7", "ours, MNIST-5k")
    assert ["†" in row[3] for row in table_3.content.rows] == [False] * 6 + [True]


@pytest.mark.parametrize("second", ["mnist", "elsewhere/mnist-5k.npz", "all.npz", "数字.npz"])
def test_two_datasets_have_names_of_their_own_though_their_files_be_called_alike(rows, second):
    pair = list(twins(rows)["mnist-5k"].values())
    names = Material([*pair, *({**row, "dataset": second} for row in pair)], STUDIES).names
    assert len(set(names.values())) == len(names) == 2
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) and name != "all" for name in names.values())


def test_a_second_dataset_has_figures_of_its_own_and_the_first_has_the_papers_number(rows):
    pair = list(twins(rows)["mnist-5k"].values())
    both = Material([*pair, *({**row, "dataset": "mnist"} for row in pair)], STUDIES)
    names = [plate.name for plate in inside(both)]
    assert names == ["figure-2", "figure-2-all", "figure-2-mnist-5k", "figure-2-mnist-5k-all", "figure-4"]


def test_a_broken_record_costs_its_own_line_and_nothing_else(own_runs, tmp_path):
    shutil.copytree(own_runs, tmp_path / "runs")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "recipe.json").write_text("{")
    (tmp_path / "runs" / "max-min" / "trace.safetensors").write_bytes(b"torn")
    text = build(tmp_path / "runs", tmp_path / "report").read_text()
    assert "is not JSON" in text
    assert "This chapter cannot be drawn" in text
    assert 'id="plate-figure-6"' in text


@pytest.mark.parametrize("lost", ["trace.safetensors", "lengths.safetensors"])
def test_figures_look_into_networks_whose_records_hold_what_they_are_drawn_from(rows, tmp_path, lost):
    pair = twins(rows)["mnist-5k"]
    poorer = tmp_path / "poorer"
    shutil.copytree(pair["max-min"]["folder"], poorer)
    (poorer / lost).unlink()
    longer = [{**row, "dataset": "mnist", "folder": str(poorer)} for row in pair.values()]
    assert [*Material([*longer, *pair.values()], STUDIES).twins] == ["mnist-5k"]


def test_records_without_lengths_cost_the_figures_of_mistakes_and_not_table_2(tmp_path):
    rows = write_study(tmp_path, "mnist-record", "small", lambda entry: 99.5)
    plates = {plate.name: plate for plate in mnist_record(Material(list(rows.values()), STUDIES))}
    assert plates["table-2"].content.rows
    assert plates["figure-9"].content is None


def test_the_curves_are_of_the_runs_that_table_1_tells(tmp_path, monkeypatch):
    """Though others of the same dataset be nearer to the default recipe."""
    monkeypatch.setattr(chapters, "accuracies_by_epoch", lambda row: [100 * row["best_test_accuracy"]] * 3)
    monkeypatch.setattr(chapters, "training_and_test_by_epoch", lambda row: [(99.0, 90.0)] * 3)
    told = write_study(tmp_path, "datasets", "small", lambda entry: 64.0)
    recipes = [Recipe(dataset="cifar10", epochs=15, normalization=name) for name in ("softmax", "max-min")]
    nearer = [write_run(tmp_path, recipe, best=0.5) for recipe in recipes]
    plates = {plate.name: plate for plate in accuracy(Material([*told.values(), *nearer], STUDIES))}
    lines = [line for axes in plates["training-curves"].content.axes for line in axes.lines]
    assert {height for line in lines for height in line.get_ydata()} == {64.0}


def test_a_figure_of_accuracies_on_held_out_images_does_not_call_them_test_accuracies(rows, monkeypatch):
    monkeypatch.setattr(chapters, "accuracies_by_epoch", lambda row: [90.0, 91.0])
    monkeypatch.setattr(chapters, "training_and_test_by_epoch", lambda row: [(95.0, 90.0), (96.0, 91.0)])
    for held_out, label in ((0, "test accuracy (%)"), (100, "accuracy (%)")):
        plates = {p.name: p for p in accuracy(Material([row | {"validation": held_out} for row in rows], STUDIES))}
        for name in ("training-curves", "test-against-training"):
            assert plates[name].content.axes[0].get_ylabel() == label


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
        "maxmincaps.verbs.report.build",
        lambda *given, **named: called.append((given, named)) or tmp_path / "index.html",
    )
    report(own_runs, tmp_path, poll=tmp_path / "poll.sqlite")
    assert called == [((own_runs, tmp_path), {"poll": tmp_path / "poll.sqlite"})]
    assert str(tmp_path / "index.html") in capsys.readouterr().out


def test_numbers_of_the_page_are_those_of_the_records(page, runs, material):
    row = material.twins["mnist-5k"]["max-min"]
    assert row == row_of(Record(runs / row["run"]))
    csv = (page.parent / "tables" / "all-runs.csv").read_text()
    alone = [row for row in material.rows if row["relu"] is False]
    assert len(alone) == 1
    assert f"{100 * alone[0]['best_test_accuracy']:.2f}" in csv
