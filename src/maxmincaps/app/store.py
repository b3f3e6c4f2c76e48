"""The file of a poll: one SQLite database, in which an answer is on the disk before it is acknowledged."""

import hashlib
import hmac
import json
import random
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from maxmincaps.analysis.poll import CANNOT_TELL, SCHEMA, Poll, check_form, classes_in, opened
from maxmincaps.app import encode_png
from maxmincaps.errors import InputError, one_line

STORE_ANSWER = """
INSERT INTO answer (person, number, label, answered_at)
SELECT :person, :number, :label, :now WHERE (SELECT value FROM poll WHERE name = 'state') = 'open'
ON CONFLICT (person, number) DO UPDATE SET label = excluded.label, answered_at = excluded.answered_at
"""
"""Check that the poll is open and store the answer in one statement, so that nothing can happen in between."""


class ClosedError(InputError):
    """The poll is closed and takes no more answers."""


class Store:
    """An open poll file. Every method may be called from any thread, and several processes may share the file."""

    def __init__(self, path: Path, asked: Poll | None = None) -> None:
        self._lock, self._path = threading.Lock(), path
        with _reporting_errors(path), ExitStack() as on_failure:
            self._connection = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
            on_failure.callback(self._connection.close)
            self._set_up()
            if asked is not None:
                with self._transaction() as connection:
                    if _is_empty(connection):
                        _write(connection, asked)
            self._load()
            on_failure.pop_all()

    @classmethod
    def create(cls, path: Path, asked: Poll) -> Self:
        """Create a poll in one transaction, or continue an existing one with the same content."""
        with _reporting_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)  # the file holds the secret that signs ids
        store = cls(path, asked)
        shown = sorted((question.image, question.prediction) for question in asked.questions)
        if store._content != (asked.dataset, asked.models, asked.classes, shown):
            store.close()
            raise InputError(f"{path}: expected a poll of the same images and networks; choose another --out")
        return store

    @classmethod
    def existing(cls, path: Path) -> Self:
        """Open an existing poll, or raise an `InputError`."""
        with opened(path):
            pass  # checks the file without changing it
        return cls(path)

    def _set_up(self) -> None:
        self._connection.execute("PRAGMA trusted_schema = OFF")
        if not _is_empty(self._connection):
            check_form(self._connection, self._path)  # before the next line changes the file
        with suppress(OSError):  # the file of another owner
            self._path.chmod(0o600)  # everybody could read the secret of polls that earlier versions made
        self._switch_journal()
        # FULL: a commit returns when the answer is on the disk and survives a power failure.
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA foreign_keys = ON")

    def _switch_journal(self) -> None:
        """Set the write-ahead log, with retries: if two processes set it at once, SQLite fails in one of them."""
        for wait in (0.01, 0.1, 1.0, None):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if wait is None:
                    raise
                time.sleep(wait)

    def _load(self) -> None:
        notes = dict(self._rows("SELECT name, value FROM poll"))
        try:
            self._secret = bytes.fromhex(notes["secret"])
            self.classes = classes_in(notes["classes"])
            about = (notes["dataset"], int(notes["models"]))
        except (KeyError, ValueError, TypeError, RecursionError):
            raise InputError(f"{self._path}: expected a complete poll, found one with parts missing") from None
        # A browser sends its cookies to all ports of a machine, which may serve several polls.
        self.cookie = f"maxmincaps_{hashlib.sha256(self._secret).hexdigest()[:8]}"
        self.images = dict(self._rows("SELECT number, png FROM question ORDER BY number"))
        shown = self._rows("SELECT image, prediction FROM question ORDER BY image")
        self._content = (*about, self.classes, shown)

    def new_person(self) -> str:
        """Return a new anonymous id with a signature that only this poll can make."""
        name = secrets.token_hex(16)
        return f"{name}.{self._signature(name)}"

    def person(self, signed: str) -> str | None:
        """Return the id of a signed id if this poll made it, else None."""
        name, _, signature = signed.partition(".")
        # The form of the name matters: the page's token is a signature by the same secret, of another text.
        genuine = hmac.compare_digest(signature.encode(), self._signature(name).encode())
        return name if genuine and re.fullmatch("[0-9a-f]{32}", name) else None

    @property
    def token(self) -> str:
        """The token of the page's address, the same after every start so that addresses stay valid."""
        return self._signature("token")

    def _signature(self, name: str) -> str:
        return hmac.new(self._secret, name.encode(), hashlib.sha256).hexdigest()[:32]

    def order(self, person: str) -> list[int]:
        """Return the numbers of all images in a random order that is fixed for each person."""
        numbers = list(self.images)
        random.Random(self._signature(f"order {person}")).shuffle(numbers)
        return numbers

    @property
    def is_open(self) -> bool:
        """Whether the poll takes answers."""
        return self._rows("SELECT value FROM poll WHERE name = 'state'") == [("open",)]

    def set_open(self, is_open: bool) -> None:
        """Open or close the poll."""
        with self._transaction() as connection:
            connection.execute("UPDATE poll SET value = ? WHERE name = 'state'", ["open" if is_open else "closed"])

    def answers_of(self, person: str) -> dict[int, int]:
        """Return the label that a person has chosen for each image number so far."""
        return dict(self._rows("SELECT number, label FROM answer WHERE person = ?", person))

    def answer(self, person: str, number: int, label: int) -> int:
        """Store an answer, which replaces an earlier one of the same person; return how many images are answered."""
        if number not in self.images:
            raise InputError(f"image: expected one of the {len(self.images)} of this poll, found {number}")
        if label != CANNOT_TELL and not 0 <= label < len(self.classes):
            raise InputError(
                f"label: expected 0 to {len(self.classes) - 1}, or {CANNOT_TELL} for “cannot tell”, found {label}"
            )
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._transaction() as connection:
            kept = connection.execute(STORE_ANSWER, {"person": person, "number": number, "label": label, "now": now})
            if not kept.rowcount:
                raise ClosedError("this poll is closed and takes no more answers")
            return connection.execute("SELECT count(*) FROM answer WHERE person = ?", [person]).fetchone()[0]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _rows(self, query: str, *values: str) -> list[tuple]:
        with self._lock, _reporting_errors(self._path):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a transaction, one thread at a time."""
        with self._lock, _reporting_errors(self._path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection


@contextmanager
def _reporting_errors(path: Path) -> Iterator[None]:
    """Turn errors of the file or the disk into an `InputError` of one line."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:
        raise InputError(f"{path}: cannot be used as a poll: {one_line(error)}") from error


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)


def _write(connection: sqlite3.Connection, asked: Poll) -> None:
    for statement in filter(str.strip, SCHEMA.split(";")):
        connection.execute(statement)
    notes = {
        "state": "open",
        "secret": secrets.token_hex(32),
        "dataset": asked.dataset,
        "classes": json.dumps(asked.classes),
        "models": str(asked.models),
    }
    connection.executemany("INSERT INTO poll VALUES (?, ?)", notes.items())
    rows = [
        (number, one.image, one.label, one.prediction, json.dumps(one.network.tolist()), encode_png(one.pixels))
        for number, one in enumerate(asked.questions)
    ]
    connection.executemany("INSERT INTO question VALUES (?, ?, ?, ?, ?, ?)", rows)
