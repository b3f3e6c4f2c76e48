"""The poll: its file, its page, and the tables made from it."""

import sqlite3
from contextlib import closing, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmincaps import InputError
from maxmincaps.analysis import poll as polls
from maxmincaps.analysis import poll_results as results
from maxmincaps.analysis.poll import CANNOT_TELL, Side
from maxmincaps.analysis.vote import vote
from maxmincaps.app.questions import build_questionnaire
from maxmincaps.app.store import ClosedError, Store
from maxmincaps.cli import main
from maxmincaps.report.poll import table_3
from maxmincaps.training.responses import responses
from tests.app.conftest import DIGITS, Visitor, asked, question


@pytest.fixture
def store(tmp_path):
    made = Store.create(tmp_path / "poll.sqlite", asked(5))
    yield made
    made.close()


def counts(path):
    return sum(polls.read(path).questions[number].counts for number in range(5))


# The file


def test_a_second_answer_of_the_same_person_replaces_the_first(store, tmp_path):
    person = store.person(store.new_person())
    assert store.answer(person, 2, 7) == 1
    assert store.answer(person, 2, 1) == 1
    assert store.answers_of(person) == {2: 1}
    assert polls.read(tmp_path / "poll.sqlite").answers == 1


def test_cannot_tell_is_an_answer_that_counts_for_no_class(store, tmp_path):
    people = [store.person(store.new_person()) for _ in range(4)]
    for person, label in zip(people, (CANNOT_TELL, CANNOT_TELL, CANNOT_TELL, 7), strict=True):
        store.answer(person, 0, label)
    found = polls.read(tmp_path / "poll.sqlite")
    question = found.questions[0]
    assert (found.answers, question.answers, question.cannot_tell) == (4, 4, 3)
    assert question.people[7] == 0.25
    assert question.side == Side.NEITHER
    assert question.doubt == pytest.approx(0.811, abs=1e-3)
    row = next(row for row in results.answer_rows(found) if row.class_name == "cannot tell")
    assert (row.people, row.share_of_people, row.mean_length) == (3, 0.75, None)


def test_everyone_has_an_order_of_their_own_that_stays(store, tmp_path):
    people = [store.person(store.new_person()) for _ in range(20)]
    orders = [store.order(person) for person in people]
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert len({tuple(order) for order in orders}) > 5
    again = Store.existing(tmp_path / "poll.sqlite")
    assert [again.order(person) for person in people] == orders
    again.close()


def test_an_id_of_this_poll_is_known_after_a_restart_and_in_no_other_poll(store, tmp_path):
    signed = store.new_person()
    again = Store.existing(tmp_path / "poll.sqlite")
    other = Store.create(tmp_path / "other.sqlite", asked(5))
    assert again.person(signed) == store.person(signed) != None  # noqa: E711
    assert other.person(signed) is None
    again.close()
    other.close()


@given(signed=st.text(max_size=70))
def test_a_forged_id_identifies_no_participant(tmp_path_factory, signed):
    store = Store.create(tmp_path_factory.mktemp("forged") / "poll.sqlite", asked(1))
    assert store.person(signed) is None
    store.close()


def test_a_closed_poll_takes_nothing_until_it_is_opened_again(store, tmp_path):
    person = store.person(store.new_person())
    store.answer(person, 0, 3)
    store.set_open(False)
    with pytest.raises(ClosedError):
        store.answer(person, 1, 3)
    assert store.answers_of(person) == {0: 3}
    store.set_open(True)
    store.answer(person, 1, 3)
    assert store.answers_of(person) == {0: 3, 1: 3}


def test_the_same_questions_continue_a_poll_and_others_do_not(store, tmp_path):
    person = store.person(store.new_person())
    store.answer(person, 0, 3)
    again = Store.create(tmp_path / "poll.sqlite", asked(5))
    assert again.answers_of(person) == {0: 3}
    again.close()
    with pytest.raises(InputError, match="choose another --out"):
        Store.create(tmp_path / "poll.sqlite", asked(4))


def test_a_file_that_is_no_poll_is_left_alone_and_named(tmp_path):
    text, strange = tmp_path / "text.sqlite", tmp_path / "strange.sqlite"
    text.write_bytes(b"not a database, but long enough to look like one" * 40)
    with sqlite3.connect(strange) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    for path in (text, strange):
        before = path.read_bytes(), sorted(tmp_path.iterdir())
        for use in (polls.read, Store.existing, lambda path: Store.create(path, asked(1))):
            with pytest.raises(InputError, match=path.name):
                use(path)
        assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before
    with pytest.raises(InputError, match="there is no such poll"):
        polls.read(tmp_path / "nowhere.sqlite")


@settings(max_examples=60)
@given(places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=30))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path_factory, places):
    path = tmp_path_factory.mktemp("damaged") / "poll.sqlite"
    store = Store.create(path, asked(2))
    store.close()
    content = bytearray(path.read_bytes())
    for place, byte in places:
        content[int(place * len(content))] = byte
    path.write_bytes(content)
    with suppress(InputError):
        polls.read(path)


# The page


def test_an_answer_is_in_the_file_when_it_is_acknowledged(poll, tmp_path):
    _, listener = poll
    visitor = Visitor(listener.port)
    order = visitor.state()["order"]
    for place, number in enumerate(order):
        assert visitor.answer(number, place) == (200, {"answered": place + 1})
        assert polls.read(tmp_path / "poll.sqlite").answers == place + 1
    assert visitor.state()["answers"] == {str(number): place for place, number in enumerate(order)}


def test_a_forged_id_index_or_label_is_refused_and_nothing_is_kept(poll, tmp_path):
    store, listener = poll
    visitor, without_cookie = Visitor(listener.port), Visitor(listener.port)
    visitor.state()
    assert without_cookie.answer(0, 1)[0] == 403
    name, _, signature = visitor.cookie.partition("=")[2].partition(".")
    for forged in (f"{name}.{signature[::-1]}", f"{'0' * 32}.{signature}", name, ".", "é", "' OR 1=1 --"):
        outsider = Visitor(listener.port, f"{store.cookie}={forged}".encode().decode("latin-1"))
        assert outsider.answer(0, 1)[0] == 403
    bad = [5, -1, 10**30, 1.0, True, None, "0", [0], {"a": 1}]
    for image, label in [*((image, 1) for image in bad), *((0, label) for label in [10, -2, *bad[2:]])]:
        status, reply = visitor.answer(image, label)
        assert status == 400, (image, label)
        assert "/" not in reply["error"]
    for body in ("", "{", "[]", "null", '{"image": 0}', '{"image": 0, "label": 1, "person": "x"}', "[" * 900):
        assert visitor.ask("POST", "/answer", body)[0] == 400
    assert visitor.ask("POST", "/answer", b"\xff\xfe\x00")[0] == 400
    assert visitor.ask("GET", "/image/99.png")[0] == 404
    assert visitor.ask("GET", "/image/..%2f..%2fetc%2fpasswd.png")[0] == 404
    assert visitor.ask("GET", "/answer")[0] == 405
    assert polls.read(tmp_path / "poll.sqlite").answers == 0
    assert visitor.answer(0, 1)[0] == 200


def test_a_closed_poll_says_so_to_those_who_come(poll):
    store, listener = poll
    visitor = Visitor(listener.port)
    visitor.state()
    store.set_open(False)
    assert visitor.answer(0, 1)[0] == 409
    assert visitor.state()["open"] is False


def test_a_full_disk_loses_no_answer_that_was_acknowledged_and_the_server_lives(poll, tmp_path):
    store, listener = poll
    first = Visitor(listener.port)
    first.state()
    assert first.answer(0, 1)[0] == 200
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    kept, refused = 1, 0
    for _ in range(40):
        visitor = Visitor(listener.port)
        for number in visitor.state()["order"]:
            status, reply = visitor.answer(number, 2)
            kept, refused = kept + (status == 200), refused + (status == 507)
            assert status == 200 or "could not be stored" in reply["error"]
            assert status == 200 or str(tmp_path) not in reply["error"]
    assert refused
    assert polls.read(tmp_path / "poll.sqlite").answers == kept
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert visitor.answer(0, 3)[0] == 200


# From runs to questions, and from answers to tables


def test_a_poll_asks_what_the_vote_gets_wrong_or_what_it_is_told_to(runs):
    found = build_questionnaire(runs)
    assert found.models == 2
    assert [one.image for one in found.questions] == vote([responses(run) for run in runs]).wrong.tolist()
    assert all(one.label != one.prediction for one in found.questions)
    chosen = build_questionnaire(runs[:1], [3, 1, 3])
    assert [one.image for one in chosen.questions] == [1, 3]
    assert chosen.questions[0].pixels.shape == (1, 28, 28)
    with pytest.raises(InputError, match="--images"):
        build_questionnaire(runs, [1000])


def answered(path, answers):
    """Make a poll in which so many people chose so many classes, image by image."""
    asked_of = polls.Poll("mnist", DIGITS, 3, [question(100 + number) for number in range(len(answers))])
    store = Store.create(path, asked_of)
    for number, chosen in enumerate(answers):
        for place, label in enumerate(chosen):
            store.answer(f"person {place}", number, label)
    store.close()
    return polls.read(path)


def test_table_3_gives_people_and_networks_on_both_labels(tmp_path):
    found = answered(tmp_path / "poll.sqlite", [[1, 1, 1, 7], [7, 7, 7, 7], [3, 3, 7, 1], [1, 1, 7, 7], []])
    rows = results.table_3(found)
    assert [row.people_agree_with for row in rows] == ["network", "label", "neither", "divided", "nobody asked"]
    first = rows[0]
    assert (first.image, first.label, first.prediction) == (100, 7, 1)
    assert (first.people_on_label, first.people_on_prediction) == (0.25, 0.75)
    assert first.network_on_label == pytest.approx(0.7)
    assert rows[4].people_on_label is None
    assert (found.people, found.finished, found.answers) == (4, 0, 16)


def test_figure_10_shows_the_clearest_of_each_kind(tmp_path):
    found = answered(tmp_path / "poll.sqlite", [[1, 1, 7], [1, 1, 1], [7, 7, 7], [7, 7, 3], [0, 1, 2]])
    shown = {title: one.image for title, one in results.examples(found)}
    assert shown == {"people agree with the network": 101, "people are right": 102, "a poor image": 104}
    assert results.examples(answered(tmp_path / "none.sqlite", [[], []])) == []


def test_the_paper_s_six_rows_have_people_on_the_network_s_side():
    rows = results.paper_rows()
    assert [row.image for row in rows] == [1260, 1901, 2597, 4823, 5937, 9729]
    assert all(row.people_on_prediction > row.people_on_label for row in rows)
    assert {row.people_agree_with for row in rows} == {Side.NETWORK}


def test_a_poll_whose_questions_are_gone_is_refused_in_a_line(store, tmp_path, capsys):
    store.close()
    with closing(sqlite3.connect(tmp_path / "poll.sqlite", isolation_level=None)) as connection:
        connection.execute("DELETE FROM question")
    with pytest.raises(SystemExit):
        main(["poll", "report", str(tmp_path / "poll.sqlite")])
    assert "expected questions, found none" in capsys.readouterr().err


def test_a_closed_poll_is_closed(command, store, tmp_path):
    store.close()
    assert polls.read(tmp_path / "poll.sqlite").is_open
    assert command("poll", "close", tmp_path / "poll.sqlite")[0] == 0
    assert not polls.read(tmp_path / "poll.sqlite").is_open


def test_table_3_says_on_how_many_images_people_are_with_the_network(tmp_path):
    found = table_3(answered(tmp_path / "poll.sqlite", [[1, 1, 7], [7, 7, 7], [0, 1, 2]]))
    assert "people agree with the network on 1 of 3 images (the paper: 6 of 17)" in found.notes[0]


def test_the_report_writes_tables_and_the_figure_and_every_bar_adds_up(tmp_path, capsys):
    path = tmp_path / "poll.sqlite"
    answered(path, [[1, 1, 7], [7, 7, 7], [0, 1, 2]])
    with pytest.raises(SystemExit) as end:
        main(["poll", "report", str(path), "--out", str(tmp_path / "out")])
    assert not end.value.code
    output = capsys.readouterr().out
    assert "1 of 3 images (the paper: 6 of 17)" in output
    assert "9729" in output
    lines = (tmp_path / "out" / "answers.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 11
    assert sum(int(line.split(",")[4]) for line in lines[1:]) == 9
    assert len((tmp_path / "out" / "table_3.csv").read_text().splitlines()) == 4
    assert (tmp_path / "out" / "figure_10.png").stat().st_size > 5000


def test_one_person_is_not_called_people_and_a_local_poll_is_not_to_be_sent(command, store, tmp_path):
    from maxmincaps.cli.pages import _invitation

    store.answer(store.person(store.new_person()), 0, 3)
    store.close()
    output = command("poll", "status", tmp_path / "poll.sqlite")[1]
    assert "1 answer of 1 person" in " ".join(output.split())
    assert "send" not in _invitation("http://127.0.0.1:8000/", is_local=True)
    assert "send" in _invitation("http://some.host:8000/?token=x", is_local=False)
