"""Untrusted polls are read and used, or refused in one line that names them: a table may be a program."""

import contextlib
import itertools
import sqlite3
from dataclasses import replace

import pytest

from maxmincaps.analysis import poll as polls
from maxmincaps.app.store import ClosedError, Store
from tests.app.conftest import question
from tests.data.test_fuzz import picture
from tests.faults.hostile_files import NUMBERS, WORDS, harmful_json, inputs
from tests.faults.readings import run_command

pytestmark = pytest.mark.filterwarnings("ignore")  # of decoders, about what they can read all the same
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
    """Change a poll's file by SQL, as an attacker who knows its tables would."""
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
    """Everything that commands do with an existing poll."""
    store = Store.existing(path)
    try:
        person = store.person(store.new_person())
        store.order(person), store.answers_of(person)
        for number in itertools.islice(store.images, 1):
            with contextlib.suppress(ClosedError):
                store.answer(person, number, 0)
        store.set_open(False)
    finally:
        store.close()


def test_polls_are_read_or_refused(readings, tmp_path, scale, tally):
    asked = polls.Poll("mnist", ("a", "b", "c"), 3, [_small(question(number, 1, 2)) for number in range(2)])
    whole_path, path = tmp_path / "whole.sqlite", tmp_path / "poll.sqlite"
    store = Store.create(whole_path, asked)
    store.answer("somebody", 0, 1)
    store._connection.execute("PRAGMA journal_mode = DELETE")
    store.close()
    whole = whole_path.read_bytes()

    def tampering(random):
        path.write_bytes(whole)
        tampered(path, random)
        return path.read_bytes()

    for number, (what, content) in enumerate(inputs(scale(300, 10_000), whole, tampering, readings.canary)):
        path.write_bytes(content)
        readings.read(lambda: polls.read(path), path.name, what)
        if number % 5 == 0:  # each waits for the disk several times
            readings.read(lambda: use_poll(path), path.name, f"{what}, used")
            path.write_bytes(content)
            readings.read(lambda: run_command("poll", "status", path), path.name, f"{what} at the command")
        for rest in tmp_path.glob("poll.sqlite*"):
            rest.unlink()
    readings.conclude(tally, "polls")


def _small(question):
    return replace(question, network=question.network[:3], counts=question.counts[:3])
