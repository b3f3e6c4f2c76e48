"""Files from strangers are read, or refused in one line that names them: no other error, no code run, no flood."""

import ast
import contextlib
import gzip
import io
import itertools
import json
import shutil
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import maxmincaps
from maxmincaps import CapsNet, InputError, Recipe, Record, fit, load_network
from maxmincaps.analysis import poll as polls
from maxmincaps.analysis import responses as answers
from maxmincaps.analysis import traces
from maxmincaps.analysis.vote import vote
from maxmincaps.app import pictures
from maxmincaps.app.store import Asked, ClosedError, Store
from maxmincaps.cli import main
from maxmincaps.data import archives
from maxmincaps.export.card import card_facts
from maxmincaps.studies.records import history_table, row_of
from maxmincaps.training.checkpoint import CHECKPOINT
from maxmincaps.training.observer import Observer
from maxmincaps.training.predict import Predictor
from maxmincaps.training.verify import verified
from tests.data.test_fuzz import FORMATS, picture
from tests.faults.strangers import NUMBERS, WORDS, Readings, damaged, harmful_json, harmful_tensors, pickles

pytestmark = pytest.mark.filterwarnings("ignore")  # of decoders, about what they can read all the same
SMALL = {"conv_channels": 4, "conv_kernel": 3, "types": 2, "primary_kernel": 3, "part_pose": 4, "class_pose": 4}
IMAGES = 30


class StopAfter(Observer):
    """Stops a run after so many steps."""

    def __init__(self, steps):
        self.left = steps

    def stepped(self, loss):
        self.left -= 1

    def wants_to_stop(self):
        return self.left <= 0


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """A recipe on images of one's own, which are read in no time."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("own") / "images.npz"
    np.savez(path, images=random.integers(0, 256, (IMAGES, 12, 12), dtype=np.uint8), labels=np.arange(IMAGES) % 3)
    return Recipe(**SMALL, dataset=str(path), decoder=(8,), batch_size=8, epochs=2, threads=1)


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory):
    """A complete record."""
    return fit(recipe, tmp_path_factory.mktemp("runs") / "run").folder


@pytest.fixture(scope="module")
def half(recipe, tmp_path_factory):
    """The record of a run that was stopped."""
    folder = tmp_path_factory.mktemp("runs") / "half"
    with contextlib.suppress(KeyboardInterrupt):
        fit(recipe, folder, observer=StopAfter(4))
    return folder


@pytest.fixture
def readings(tmp_path):
    return Readings(tmp_path)


def inputs(count, whole, harmful, traps):
    """Give harmful contents of a file: traps first, then by turns damaged bytes and lies that know the format."""
    for number in range(count):
        random = np.random.default_rng([number, 11])
        if number < len(traps):
            yield f"trap {number}", traps[number]
        elif number % 3 == 0:
            yield f"damaged {number}", damaged(whole, random)
        else:
            yield f"harmful {number}", harmful(random)


def told(*words):
    """Call the command; anything but success, or one line and the code of wrong input, is an error."""
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            if end.code == 2:
                raise InputError(" ".join(printed.getvalue().split())) from None
            if end.code:
                raise RuntimeError(f"ended with code {end.code}: {printed.getvalue()}") from None


# Weights


def test_weights_are_loaded_or_refused(run, readings, tmp_path, scale, tally):
    folder = shutil.copytree(run, tmp_path / "run")
    path = folder / "best.safetensors"
    whole = path.read_bytes()
    for what, content in inputs(
        scale(200, 7000), whole, lambda random: harmful_tensors(whole, random), pickles(readings.canary)
    ):
        path.write_bytes(content)
        readings.read(lambda: load_network(folder), path.name, what)
    readings.conclude(tally, "weights")


def test_a_checkpoint_is_continued_or_refused(recipe, half, readings, tmp_path, scale, tally):
    whole = (half / CHECKPOINT).read_bytes()
    folder = tmp_path / "run"
    for what, content in inputs(
        scale(60, 3000), whole, lambda random: harmful_tensors(whole, random), pickles(readings.canary)
    ):
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
        return harmful_json(settings, random).encode("utf-8", "surrogatepass")

    for what, content in inputs(scale(100, 3000), config.read_bytes(), lie, pickles(readings.canary)):
        config.write_bytes(content)
        readings.read(lambda: CapsNet.from_pretrained(folder), "hub", what)
    config.write_text(json.dumps(settings))
    for what, content in inputs(
        scale(50, 1000), tensors, lambda random: harmful_tensors(_noted(tensors), random), pickles(readings.canary)
    ):
        weights.write_bytes(content)
        readings.read(lambda: CapsNet.from_pretrained(folder), "hub", what)
    readings.conclude(tally, "networks of a hub")


def _noted(whole):
    """Give a safetensors file with a note, as ours have one."""
    from safetensors.torch import load as loaded
    from safetensors.torch import save

    return save(loaded(whole), {"note": "{}"})


# Records

RECORDED = ("recipe.json", "data.json", "result.json", "history.jsonl", "environment.json")
TENSORS = ("lengths.safetensors", "trace.safetensors")


def read_record(folder):
    """Everything that is done with a record by itself."""
    record = Record(folder)
    str(record), record._repr_html_(), row_of(record), history_table(folder), card_facts(folder)
    Predictor.of(folder)


def read_answers(folder):
    found = answers.responses(folder)
    answers.misclassified(found), answers.confusion(found), answers.tuning_rows(folder), answers.outputs(folder)
    vote([found, found, found]), answers.shown_images(found.labels, len(found.classes))


def read_trace(folder):
    traces.evolution_rows(folder), traces.rows(folder)


COMMANDS = [
    lambda folder: told("runs", folder.parent),
    lambda folder: told("predict", folder.parent / "some.png", "--run", folder),
    lambda folder: told("evaluate", folder),
    lambda folder: told("look", "tuning", folder),
    lambda folder: told("look", "outputs", folder),
    lambda folder: told("look", "misclassified", folder),
    lambda folder: told("look", "evolution", folder),
    lambda folder: told("look", "rows", folder),
    lambda folder: told("look", "vote", folder, folder, folder),
    lambda folder: list(verified(folder)),
]


def test_records_are_read_or_refused(run, readings, tmp_path, scale, tally):
    folder = shutil.copytree(run, tmp_path / "run")
    (tmp_path / "some.png").write_bytes(picture("PNG"))
    for place, name in enumerate((*RECORDED, *TENSORS)):
        path = folder / name
        whole = path.read_bytes()
        readers = [read_record if name in RECORDED else read_trace if "trace" in name else read_answers]
        if name == "data.json":
            readers.append(read_answers)

        def lie(random, whole=whole, name=name):
            if name in TENSORS:
                return harmful_tensors(whole, random)
            lines = whole.decode().splitlines(keepends=True) if name == "history.jsonl" else [whole.decode()]
            changed = harmful_json(json.loads(lines[-1]), random)
            return "".join([*lines[:-1], changed]).encode("utf-8", "surrogatepass")

        for number, (what, content) in enumerate(inputs(scale(40, 1500), whole, lie, pickles(readings.canary))):
            path.write_bytes(content)
            for reader in readers:
                readings.read(lambda reader=reader: reader(folder), "run", f"{name} {what}")
            if number % scale(6, 5) == 0:
                command = COMMANDS[(number // scale(6, 5) + place) % len(COMMANDS)]
                readings.read(lambda command=command: command(folder), str(tmp_path), f"{name} {what} at the command")
        path.write_bytes(whole)
    readings.conclude(tally, "records")


# Recipes


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
            return text.encode("utf-8", "surrogatepass")

        for what, content in inputs(scale(200, 5000), whole.encode(), lie, pickles(readings.canary)):
            path.write_bytes(content)

            def read(path=path):
                found = Recipe.from_file(path)
                assert Recipe.from_json(found.to_json()) == found

            readings.read(read, path.name, f"{suffix} {what}")
    readings.conclude(tally, "recipes")


# Datasets


def lying_npy(random):
    """Write an .npy file whose header claims what is not so."""
    claims = [
        {"shape": (2**40, 28, 28)},
        {"shape": (-8, 28, 28)},
        {"shape": (8, 28)},
        {"shape": 8},
        {"shape": (8.0, 28, 28)},
        {"shape": ()},
        {"descr": "|O"},
        {"descr": "<U1000000"},
        {"descr": "<f8"},
        {"descr": [("a", "|O")]},
        {"descr": "__import__('os').system('true')"},
        {"fortran_order": "yes"},
        {"more": 1},
    ]
    head = {"descr": "|u1", "fortran_order": False, "shape": (8, 28, 28), **claims[random.integers(len(claims))]}
    text = [repr(head), "(" * 5000, repr(head) + " " * 70_000, "__import__('os')"][max(0, random.integers(-9, 4))]
    text = text.encode().ljust(118) + b"\n"
    version, length = (b"\x01\x00", 2) if len(text) < 65536 else (b"\x02\x00", 4)
    return b"\x93NUMPY" + version + len(text).to_bytes(length, "little") + text + bytes(8 * 28 * 28)


def lying_npz(random):
    """Write an .npz file: names that lead elsewhere, twice the same name, arrays that lie, sizes that lie."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
        labels = io.BytesIO()
        np.save(labels, np.arange(8) % 2)
        for name in [["images.npy", "labels.npy"], ["../images.npy", "/labels.npy"], ["images.npy"] * 2][
            random.integers(3)
        ]:
            with contextlib.suppress(UserWarning):
                members.writestr(name, lying_npy(random) if "images" in name else labels.getvalue())
        members.writestr("labels.npy", labels.getvalue())
    found = bytearray(file.getvalue())
    if random.random() < 0.5:
        at = found.rfind(b"PK\x01\x02") + 20 + 4 * int(random.integers(2))  # a size in the last entry of the directory
        found[at : at + 4] = [b"\xff" * 4, b"\x00\x00\x00\x80", bytes(4)][random.integers(3)]
    return bytes(found)


def lying_archive(suffix, random):
    """Write an archive whose members would leave their folder, link elsewhere, or unpack to very much."""
    names = ["../some", "/some", "a/../../some", "..\\some", "C:/some", "some", "x/some", "some\x00.txt", "some" * 100]
    name, file = names[random.integers(len(names))], io.BytesIO()
    content = [b"x" * 500, bytes(1 << 22)][random.integers(2)]
    if suffix == ".zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
            members.writestr(zipfile.ZipInfo(name), content)
        return file.getvalue()
    with tarfile.open(fileobj=file, mode="w") as members:
        member = tarfile.TarInfo(name)
        member.type = [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE][
            random.integers(5)
        ]
        member.linkname = "/etc/passwd"
        member.size = len(content) if member.isreg() else 0
        members.addfile(member, io.BytesIO(content))
    return gzip.compress(file.getvalue(), 1)


def lying_picture(form):
    """Write pictures whose header claims any size."""
    whole = picture(form)
    offset = {"PNG": 16, "GIF": 6, "BMP": 18}.get(form, 4)

    def lie(random):
        found = bytearray(whole)
        sizes = [b"\xff" * 8, b"\x00\x00\xff\xff" * 2, b"\x7f\xff\xff\xff" * 2, bytes(8), b"\x00\x01" * 4]
        found[offset : offset + 8] = sizes[random.integers(len(sizes))]
        return bytes(found)

    return lie


LIES = {
    "npz": lying_npz,
    "compressed npz": lying_npz,
    "npy": lying_npy,
    "tgz": lambda random: lying_archive(".tgz", random),
    "zip": lambda random: lying_archive(".zip", random),
    "manifest": lambda random: harmful_json(
        {"dataset": "x", "source": "y", "regenerated": True, "sha256": {"a": "b"}, "seed": 0}, random
    ).encode("utf-8", "surrogatepass"),
    "JSON labels": lambda random: harmful_json([1, 2, 3], random).encode("utf-8", "surrogatepass"),
    **{name: lying_picture(name.upper()) for name in ("PNG", "GIF", "BMP", "TIFF")},
}


def test_datasets_are_read_or_refused(readings, tmp_path, scale, tally):
    count = scale(12, 417)
    for name, (suffix, make, read) in FORMATS.items():
        folder = tmp_path / name
        folder.mkdir()
        path, whole = folder / f"some{suffix}", make()
        path.with_suffix(".whole").write_bytes(whole)
        harmful = LIES.get(name, lambda random, whole=whole: damaged(damaged(whole, random), random))
        traps = [trap[:100_000] for trap in pickles(readings.canary)][: count // 2]
        for what, content in inputs(count, whole, harmful, traps):
            path.write_bytes(content)
            readings.read(lambda read=read, path=path: read(path), str(tmp_path), f"{name} {what}")
    assert {path.name for path in tmp_path.iterdir()} == set(FORMATS)  # nothing was written beside the folders
    readings.conclude(tally, "datasets")


@pytest.mark.parametrize("suffix", [".zip", ".tgz"])
def test_no_member_of_an_archive_leaves_its_folder(tmp_path, suffix):
    archive, folder = tmp_path / f"some{suffix}", tmp_path / "unpacked"
    folder.mkdir()
    for number in range(60):
        archive.write_bytes(lying_archive(suffix, np.random.default_rng(number)))
        with contextlib.suppress(InputError):
            archives.unpack(archive, {"some": 1000}, folder)
    assert {path.name for path in tmp_path.iterdir()} == {archive.name, "unpacked"}
    assert all(path.name == "some" and not path.is_symlink() for path in folder.iterdir())


# Images


def test_images_are_read_or_refused(readings, tmp_path, scale, tally):
    from base64 import b64encode

    from maxmincaps.data.own import read_picture

    forms = ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"]
    path = tmp_path / "some.png"
    for form in forms:
        traps = [trap[:100_000] for trap in pickles(readings.canary)]
        for what, content in inputs(scale(30, 1430), picture(form), lying_picture(form), traps):
            path.write_bytes(content)
            readings.read(lambda: read_picture(path, "RGB", 12, 12), path.name, f"{form} {what}")
            url = f"data:image/png;base64,{b64encode(content).decode()}"
            readings.read(lambda url=url: pictures.uploaded(url, (1, 28, 28)), "", f"{form} {what} uploaded")
            readings.read(lambda url=url: pictures.drawn(url, (1, 28, 28)), "", f"{form} {what} drawn")
    readings.conclude(tally, "images")


# Polls

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
TAMPERED = [
    ["UPDATE poll SET value = :word WHERE name = :note"],
    ["DELETE FROM poll WHERE name = :note"],
    ["UPDATE poll SET value = :json WHERE name = 'classes'"],
    ["UPDATE question SET lengths = :json"],
    ["UPDATE question SET lengths = '[NaN, 1, 2]'"],
    ["UPDATE question SET lengths = :word"],
    ["UPDATE question SET png = :bytes"],
    ["UPDATE question SET png = zeroblob(20000000)"],
    ["UPDATE question SET label = :number"],
    ["UPDATE question SET prediction = :number, image = :number"],
    ["UPDATE answer SET label = :number"],
    ["UPDATE answer SET person = :word, number = :number"],
    ["DROP TABLE answer"],
    ["DELETE FROM question"],
    ["DROP TABLE answer", f"CREATE VIEW answer AS {ENDLESS} SELECT x AS person, x AS number, 1 AS label FROM n"],
    ["DROP TABLE poll", f"CREATE VIEW poll AS {ENDLESS} SELECT x AS name, x AS value FROM n"],
    [f"CREATE TRIGGER endless BEFORE UPDATE ON poll BEGIN SELECT ({ENDLESS} SELECT max(x) FROM n); END"],
    ["CREATE TRIGGER stranger BEFORE UPDATE ON poll BEGIN SELECT load_extension('x'); END"],
    ["CREATE INDEX more ON answer (label)"],
    ["PRAGMA user_version = 99"],
    ["PRAGMA application_id = 1"],
]
NOTES = ("state", "secret", "dataset", "classes", "models")


def tampered(path, random):
    """Change a poll's file by SQL, as somebody would who knows its form."""
    whole = [number for number in NUMBERS if isinstance(number, int) and abs(number) < 2**63]
    values = {
        "word": WORDS[random.integers(len(WORDS))].encode("utf-8", "replace").decode(),
        "note": NOTES[random.integers(len(NOTES))],
        "json": harmful_json([0.1] * 3, random).encode("utf-8", "replace").decode(),
        "bytes": [b"", b"\x89PNG\r\n\x1a\n", picture("PNG", "P"), picture("JPEG"), bytes(9)][random.integers(5)],
        "number": whole[random.integers(len(whole))],
    }
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in TAMPERED[random.integers(len(TAMPERED))]:
            connection.execute(statement, values if ":" in statement else ())


def use_poll(path):
    """What is done with a poll that was made before."""
    store = Store.existing(path)
    try:
        person = store.person(store.new_person())
        store.order(person), store.answers_of(person)
        for number in itertools.islice(store.images, 1):
            with contextlib.suppress(ClosedError):
                store.answer(person, number, 0)
        store.set_open(False)
    finally:
        store.shut()


def test_polls_are_read_or_refused(readings, tmp_path, scale, tally):
    from tests.app.conftest import question

    asked = Asked("mnist", ("a", "b", "c"), 3, [_small(question(number, 1, 2)) for number in range(2)])
    whole_path, path = tmp_path / "whole.sqlite", tmp_path / "poll.sqlite"
    store = Store.create(whole_path, asked)
    store.answer("somebody", 0, 1)
    store._connection.execute("PRAGMA journal_mode = DELETE")
    store.shut()
    whole = whole_path.read_bytes()

    def tampering(random):
        path.write_bytes(whole)
        tampered(path, random)
        return path.read_bytes()

    for number, (what, content) in enumerate(inputs(scale(300, 10_000), whole, tampering, pickles(readings.canary))):
        path.write_bytes(content)
        readings.read(lambda: polls.read(path), path.name, what)
        if number % 5 == 0:  # each waits for the disk several times
            readings.read(lambda: use_poll(path), path.name, f"{what}, used")
            path.write_bytes(content)
            readings.read(lambda: told("poll", "status", path), path.name, f"{what} at the command")
        for rest in tmp_path.glob("poll.sqlite*"):
            rest.unlink()
    readings.conclude(tally, "polls")


def _small(question):
    from dataclasses import replace

    return replace(question, network=question.network[:3], counts=question.counts[:3])


# Names

NAMES = ["<script>alert(1)</script>", "[/bold][red]", "\x1b[2J\x1b]0;title\x07", r"$\frac{1$", "../../../up"]


def test_names_of_strangers_are_words_and_nothing_else(tmp_path, monkeypatch, capsys, scale, tally):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    dataset = tmp_path / r"[bold]<img src=x>$\frac$.npz"
    images = random.integers(0, 256, (50, 12, 12), dtype=np.uint8)
    np.savez(dataset, images=images, labels=np.arange(50) % 5, classes=np.array(NAMES))
    Path("x[y].png").write_bytes(picture("PNG"))
    sizes = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)]
    for folder, normalization in (("runs/[a]", "max-min"), ("runs/[b]", "softmax")):
        flags = ["--dataset", dataset, "--decoder", 8, "--epochs", 1, "--threads", 1, *sizes]
        told("train", "--out", folder, "--normalization", normalization, *flags)
    run = "runs/[a]"
    before = set(tmp_path.parent.iterdir())
    commands = [
        *(["runs", "runs"], ["verify", run], ["evaluate", run], ["predict", "x[y].png", "--run", run]),
        *(["look", name, run] for name in ("tuning", "outputs", "misclassified", "evolution", "rows", "vote")),
        *(
            ["data", "show", dataset],
            ["data", "show", dataset, "--statistics"],
            ["export", run, "--to", "hub"],
            ["export", run, "--to", "record"],
        ),
        *scale([], [["report", "--runs", "runs"], ["export", run, "--to", "torch"]]),
    ]
    for words in commands:
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        printed = capsys.readouterr()
        assert not end.value.code, (words, printed.err)
        assert "\x1b" not in printed.out + printed.err
    for page in tmp_path.rglob("index.html"):
        assert "<img src=x>" not in page.read_text()
        assert "<script>alert" not in page.read_text()
    assert set(tmp_path.parent.iterdir()) == before  # and no name led out of the folder
    tally("names", commands=len(commands), taken_for_more_than_words=0)


# What is not in our source

NEVER = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "joblib"}
CALLS = {"eval", "exec", "compile", "__import__"}
LOADS = {"torch.load", "torch.jit.load", "np.load", "numpy.load", "os.system", "os.popen", "yaml.load"}


def trouble_in(source):
    """Name what in a source could run what it reads."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.partition(".")[0] in NEVER)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in NEVER:
            yield node.module
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in CALLS | LOADS:
                yield name
            yield from (word.arg for word in node.keywords if word.arg in ("allow_pickle", "shell"))


def test_nothing_in_the_package_can_run_what_it_reads():
    folder = Path(maxmincaps.__file__).parent
    found = {
        path.relative_to(folder): list(trouble_in(path.read_text(encoding="utf-8"))) for path in folder.rglob("*.py")
    }
    assert len(found) > 50
    assert {path: names for path, names in found.items() if names} == {}
    assert list(trouble_in("import pickle\ntorch.load(x)\nx.eval()\nnp.load(y, allow_pickle=True)"))
