"""Untrusted weights, checkpoints, runs and recipes are read, or refused in one line that names them."""

import contextlib
import json
import shutil

import pytest
from safetensors.torch import load as loaded
from safetensors.torch import save

from maxmincaps import CapsNet, InputError, Recipe, Run, fit, load_network
from maxmincaps.analysis import responses as answers
from maxmincaps.analysis import traces
from maxmincaps.analysis.vote import vote
from maxmincaps.export.card import card_facts
from maxmincaps.studies.query import tables
from maxmincaps.training.checkpoint import CHECKPOINT
from maxmincaps.training.observer import Observer
from maxmincaps.training.predict import Predictor
from maxmincaps.training.responses import responses, verify_run
from tests.data.test_fuzz import picture
from tests.faults.hostile_files import encoded, harmful_json, harmful_tensors, inputs
from tests.faults.own import own_recipe, write_own
from tests.faults.readings import run_command

pytestmark = pytest.mark.filterwarnings("ignore")  # of decoders, about what they can read all the same


class StopAfter(Observer):
    """Stops a run after so many steps."""

    def __init__(self, steps):
        self.left = steps

    def stepped(self, loss):
        self.left -= 1

    def should_stop(self):
        return self.left <= 0


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return own_recipe(write_own(tmp_path_factory.mktemp("own") / "images.npz"), epochs=2)


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory):
    """A complete run."""
    return fit(recipe, tmp_path_factory.mktemp("runs") / "run").folder


@pytest.fixture(scope="module")
def half(recipe, tmp_path_factory):
    """A run that was stopped."""
    folder = tmp_path_factory.mktemp("runs") / "half"
    with contextlib.suppress(KeyboardInterrupt):
        fit(recipe, folder, observer=StopAfter(4))
    return folder


def lies_in(whole):
    """Return a function that makes harmful files from a valid tensor file."""
    return lambda random: harmful_tensors(whole, random)


def test_weights_are_loaded_or_refused(run, readings, tmp_path, scale, tally):
    folder = shutil.copytree(run, tmp_path / "run")
    path = folder / "best.safetensors"
    whole = path.read_bytes()
    for what, content in inputs(scale(200, 7000), whole, lies_in(whole), readings.canary):
        path.write_bytes(content)
        readings.read(lambda: load_network(folder), path.name, what)
    readings.conclude(tally, "weights")


def test_a_checkpoint_is_continued_or_refused(recipe, half, readings, tmp_path, scale, tally):
    whole = (half / CHECKPOINT).read_bytes()
    folder = tmp_path / "run"
    for what, content in inputs(scale(60, 3000), whole, lies_in(whole), readings.canary):
        shutil.copytree(half, folder)
        (folder / CHECKPOINT).write_bytes(content)

        def resumed():
            with contextlib.suppress(KeyboardInterrupt):
                fit(recipe, folder, resume=True, observer=StopAfter(1))

        readings.read(resumed, "run/", what)
        shutil.rmtree(folder)
    readings.conclude(tally, "checkpoints")


def test_a_network_from_the_hub_is_loaded_or_refused(run, readings, tmp_path, scale, tally):
    folder = tmp_path / "hub"
    load_network(run).save_pretrained(folder)
    config, weights = (folder / name for name in ("config.json", "model.safetensors"))
    settings, tensors = json.loads(config.read_text()), weights.read_bytes()

    def lie(random):
        return encoded(harmful_json(settings, random))

    for what, content in inputs(scale(100, 3000), config.read_bytes(), lie, readings.canary):
        config.write_bytes(content)
        readings.read(lambda: CapsNet.from_pretrained(folder), "hub", what)
    config.write_text(json.dumps(settings))
    noted = save(loaded(tensors), {"note": "{}"})  # as ours have one
    for what, content in inputs(scale(50, 1000), tensors, lies_in(noted), readings.canary):
        weights.write_bytes(content)
        readings.read(lambda: CapsNet.from_pretrained(folder), "hub", what)
    readings.conclude(tally, "networks of a hub")


JSON_FILES = ("recipe.json", "data.json", "result.json", "history.jsonl", "environment.json")
TENSORS = ("lengths.safetensors", "trace.safetensors")
LOOKS = ("tuning", "outputs", "misclassified", "evolution", "rows")


def read_run(folder):
    """Everything that commands do with a run folder alone."""
    run = Run(folder)
    str(run), run._repr_html_(), run.summary(), tables(folder), card_facts(folder)
    Predictor.of(folder)


def read_answers(folder):
    found = responses(folder)
    answers.misclassified(found), answers.confusion(found), answers.tuning_rows(found), answers.outputs(found)
    vote([found, found, found])


def read_trace(folder):
    found = traces.trace(folder)
    traces.evolution(found), traces.rows(found)


COMMANDS = [
    lambda folder: run_command("runs", folder.parent),
    lambda folder: run_command("predict", folder.parent / "some.png", "--run", folder),
    lambda folder: run_command("evaluate", folder),
    *(lambda folder, name=name: run_command("look", name, folder) for name in LOOKS),
    lambda folder: run_command("look", "vote", folder, folder, folder),
    lambda folder: list(verify_run(folder)),
]


def test_run_folders_are_read_or_refused(run, readings, tmp_path, scale, tally):
    folder = shutil.copytree(run, tmp_path / "run")
    (tmp_path / "some.png").write_bytes(picture("PNG"))
    for place, name in enumerate((*JSON_FILES, *TENSORS)):
        path = folder / name
        whole = path.read_bytes()
        readers = [read_run if name in JSON_FILES else read_trace if "trace" in name else read_answers]
        if name == "data.json":
            readers.append(read_answers)

        def lie(random, whole=whole, name=name):
            if name in TENSORS:
                return harmful_tensors(whole, random)
            lines = whole.decode().splitlines(keepends=True) if name == "history.jsonl" else [whole.decode()]
            changed = harmful_json(json.loads(lines[-1]), random)
            return encoded("".join([*lines[:-1], changed]))

        for number, (what, content) in enumerate(inputs(scale(40, 1500), whole, lie, readings.canary)):
            path.write_bytes(content)
            for reader in readers:
                readings.read(lambda reader=reader: reader(folder), "run", f"{name} {what}")
            if number % scale(6, 5) == 0:
                command = COMMANDS[(number // scale(6, 5) + place) % len(COMMANDS)]
                readings.read(lambda command=command: command(folder), str(tmp_path), f"{name} {what} at the command")
        path.write_bytes(whole)
    readings.conclude(tally, "run folders")


def in_toml(settings):
    """Write a table of plain settings as TOML, as far as TOML has words for them."""
    words = {True: "true", False: "false"}
    return "\n".join(
        f"{json.dumps(name)} = {words[value] if isinstance(value, bool) else json.dumps(value)}"
        for name, value in settings.items()
        if value is not None
    )


def test_recipes_are_read_or_refused(recipe, readings, tmp_path, scale, tally):
    settings = recipe.model_dump(mode="json")
    tables = {".json": json.dumps(settings), ".toml": in_toml(settings)}
    for suffix, whole in tables.items():
        path = tmp_path / f"recipe{suffix}"

        def lie(random, suffix=suffix):
            text = harmful_json(settings, random)
            if suffix == ".toml":
                with contextlib.suppress(ValueError, AttributeError, RecursionError):
                    text = in_toml(json.loads(text))
            return encoded(text)

        for what, content in inputs(scale(200, 5000), whole.encode(), lie, readings.canary):
            path.write_bytes(content)

            def read(path=path):
                found = Recipe.from_file(path)
                assert Recipe.from_json(found.to_json()) == found

            readings.read(read, path.name, f"{suffix} {what}")
    readings.conclude(tally, "recipes")


def test_a_query_reads_no_file_not_even_below_the_temporary_folder(run, tmp_path, monkeypatch):
    from maxmincaps.studies.query import query

    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / ".tmp"):
        folder.mkdir(exist_ok=True)
        (folder / "secret.csv").write_text("name\nsecret\n")
        path = (folder / "secret.csv").relative_to(tmp_path)
        for name in (path, path.resolve()):
            with pytest.raises(InputError, match="--sql"):
                query(run.parent, f"select * from read_csv('{name}')")


@pytest.mark.parametrize("name", ["recipe.json", "data.json", "result.json"])
def test_a_lone_surrogate_in_one_run_does_not_spoil_a_query_over_all(run, tmp_path, name):
    from maxmincaps.studies.query import query

    runs = tmp_path / "runs"
    for copy in ("good", "strange"):
        shutil.copytree(run, runs / copy)
    values = json.loads((runs / "strange" / name).read_text())
    key = {"recipe.json": "dataset", "data.json": "name", "result.json": "best_chosen_by"}[name]
    (runs / "strange" / name).write_text(json.dumps({**values, key: "\ud800"}))
    assert query(runs, "select count(*) from runs").rows == [(1,)]
