"""Answers of people about misclassified images: Table 3 and figure 10, from a poll's file alone.

A poll is one SQLite file: what was asked, and every answer. This module defines the
file's format and reads it; the poll's page writes it. Nothing here needs torch, so that a poll opens at once.
"""

import io
import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, UInt8
from PIL import Image

from maxmincaps.errors import InputError, one_line

MOST_PIXELS = 1 << 22  # of one image
CANNOT_TELL = -1  # the label of an answer "I cannot tell"
SCHEMA = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
"""The tables of the file. One answer for each person and question: a second one replaces the first."""


class Side(StrEnum):
    """Whom most people agree with."""

    NETWORK = "network"
    LABEL = "label"
    NEITHER = "neither"
    DIVIDED = "divided"
    NOBODY = "nobody asked"


@dataclass(frozen=True, eq=False)
class Question:
    """One image with the predictions of the networks and the answers of people."""

    image: int  # its index in the test set
    label: int
    prediction: int  # the majority vote of the networks
    network: Float[np.ndarray, "class"]
    """The mean length of each class capsule over the networks; these do not sum to 1."""
    pixels: UInt8[np.ndarray, "channel height width"]
    counts: Int64[np.ndarray, "class"]  # how many people chose each class
    cannot_tell: int = 0  # how many people answered that they cannot tell

    @property
    def answers(self) -> int:
        """The number of people who answered."""
        return int(self.counts.sum()) + self.cannot_tell

    @property
    def people(self) -> Float[np.ndarray, "class"]:
        """The share of all answers that each class has; zeros without answers."""
        return self.counts / max(1, self.answers)

    @property
    def side(self) -> Side:
        """Whom most people agree with."""
        if not self.answers:
            return Side.NOBODY
        if self.cannot_tell >= self.counts.max():
            return Side.NEITHER if self.cannot_tell > self.counts.max() else Side.DIVIDED
        chosen = np.flatnonzero(self.counts == self.counts.max())
        if len(chosen) > 1:
            return Side.DIVIDED
        return {self.prediction: Side.NETWORK, self.label: Side.LABEL}.get(int(chosen[0]), Side.NEITHER)

    @property
    def doubt(self) -> float:
        """The entropy of people's answers in bits, "cannot tell" included: 0 if all agree."""
        shares = [*self.people.tolist(), self.cannot_tell / max(1, self.answers)]
        return -math.fsum(share * math.log2(share) for share in shares if share)


@dataclass(frozen=True, eq=False)
class Poll:
    """The content of a poll's file, or of a poll that nobody has answered yet."""

    dataset: str
    classes: tuple[str, ...]
    models: int  # how many networks voted
    questions: Sequence[Question]
    is_open: bool = True
    people: int = 0  # number of people who answered at least once
    finished: int = 0  # number of people who answered every question

    @property
    def answers(self) -> int:
        """Count the answers."""
        return sum(question.answers for question in self.questions)


def read(path: Path | str) -> Poll:
    """Read a poll's file, as it is now, without changing it; a server may be writing it."""
    with opened(Path(path)) as connection:
        notes = dict(connection.execute("SELECT name, value FROM poll"))
        classes = classes_in(notes["classes"])
        questions = tuple(_questions(connection, len(classes), Path(path)))
        if not questions:
            raise InputError(f"{path}: expected questions, found none")
        answered = "SELECT count(*) AS answers FROM answer GROUP BY person"
        people, finished = connection.execute(
            f"SELECT count(*), count(*) FILTER (WHERE answers = ?) FROM ({answered})", [len(questions)]
        ).fetchone()
        is_open = notes["state"] == "open"
        return Poll(notes["dataset"], classes, int(notes["models"]), questions, is_open, people, finished)


def classes_in(note: str) -> tuple[str, ...]:
    """Read the names of the classes as a poll's file has them."""
    names = json.loads(note)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError("no list of class names")
    return tuple(names)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a poll's file for reading, one moment of it; whatever is wrong with it is one line."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such poll; `maxmincaps poll open RUN RUN RUN` makes one")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("BEGIN")
            check_form(connection, path)
            yield connection
    except (sqlite3.Error, KeyError, ValueError, TypeError, OverflowError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: expected a poll of this package, found {one_line(error)}") from None


def check_form(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a poll of this version, or holds more than our tables."""
    with closing(sqlite3.connect(":memory:")) as ours:
        ours.executescript(SCHEMA)
        if (found := _version(connection)) != (expected := _version(ours)):
            raise InputError(f"{path}: expected a poll with application and version {expected}, found {found}")
        # A view or a trigger is a program that runs when a table is read or written, perhaps without end.
        if _objects(connection) != _objects(ours):
            raise InputError(f"{path}: expected a poll's own tables, found others")


def _version(connection: sqlite3.Connection) -> tuple[int, ...]:
    return tuple(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))


def _objects(connection: sqlite3.Connection) -> list[tuple]:
    return sorted(connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall(), key=str)


def _questions(connection: sqlite3.Connection, classes: int, path: Path) -> Iterator[Question]:
    asked = "SELECT number, image, label, prediction, lengths, png FROM question ORDER BY number"
    chosen = "SELECT label, count(*) FROM answer WHERE number = ? GROUP BY label"
    for number, image, label, prediction, lengths, png in connection.execute(asked).fetchall():
        network = np.array(json.loads(lengths), np.float64)
        answered = dict(connection.execute(chosen, [number]))
        cannot_tell, counts = answered.pop(CANNOT_TELL, 0), np.zeros(classes, np.int64)
        for answer, count in answered.items():
            counts[_class(answer, classes, path)] = count
        if network.shape != (classes,) or not np.isfinite(network).all():
            raise InputError(f"{path}: expected {classes} lengths of image {image}, found {network.shape}")
        labels = _class(label, classes, path), _class(prediction, classes, path)
        yield Question(image, *labels, network, _pixels(png, path), counts, cannot_tell)


def _class(label: Any, classes: int, path: Path) -> int:
    if not isinstance(label, int) or not 0 <= label < classes:
        raise InputError(f"{path}: expected a class in 0…{classes - 1}, found {label!r}")
    return label


def _pixels(png: bytes, path: Path) -> UInt8[np.ndarray, "channel height width"]:
    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as picture:
            if math.prod(picture.size) > MOST_PIXELS or picture.mode not in ("L", "RGB"):
                raise InputError(f"{path}: expected a small image, found {picture.size} in {picture.mode}")
            return np.atleast_3d(np.asarray(picture)).transpose(2, 0, 1)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: expected an image, found {error}") from None
