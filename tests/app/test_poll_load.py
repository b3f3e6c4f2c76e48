"""120 people, 17 images, 30 at once, and a server that is killed in the middle."""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from maxmincaps.app.store import Store
from tests.app.conftest import Served, Visitor, asked, persist

PEOPLE, IMAGES, AT_ONCE = 120, 17, 30


def one_person(port: int, person: int, acknowledged: dict) -> None:
    visitor = Visitor(port)
    state = persist(visitor.state)
    name = visitor.cookie.partition("=")[2].partition(".")[0]
    for place, number in enumerate(state["order"]):
        label = (person + place) % 10
        if place % 5 == 4:  # some change their mind at once
            persist(lambda number=number, label=label: visitor.answer(number, (label + 1) % 10))
        status, _ = persist(lambda number=number, label=label: visitor.answer(number, label))
        assert status == 200
        acknowledged[name, number] = label


def stored(path: Path) -> dict:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT person, number, label FROM answer").fetchall()
    assert len({row[:2] for row in rows}) == len(rows)
    return {(person, number): label for person, number, label in rows}


@pytest.mark.parametrize("kills", [0, 2])
def test_120_people_30_at_once_lose_no_answer_and_none_counts_twice(tmp_path, kills):
    path = tmp_path / "poll.sqlite"
    Store.create(path, asked(IMAGES)).close()
    served, acknowledged = Served("poll", "open", "--out", str(path)), {}
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            people = [pool.submit(one_person, served.port, person, acknowledged) for person in range(PEOPLE)]
            for kill in range(kills):
                while len(acknowledged) < PEOPLE * IMAGES * (kill + 1) / (kills + 1):
                    assert not any(person.done() and person.exception() for person in people)
                    time.sleep(0.005)
                before = dict(acknowledged)
                served.kill()
                assert before.items() <= stored(path).items()  # acknowledged answers survive the kill
                served.start()
            for person in people:
                person.result()
    finally:
        served.kill()
    assert len(acknowledged) == PEOPLE * IMAGES == 2040
    assert stored(path) == acknowledged
