"""Concurrent processes: launchers on a folder, trainings in a folder, fetchers of a dataset, polls on a file."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

from maxmincaps.analysis import poll as polls
from maxmincaps.app.store import Store
from maxmincaps.data import download
from maxmincaps.training import fit as fits
from maxmincaps.training.run import runs_under, write_atomic
from tests.app.conftest import asked
from tests.faults.children import child
from tests.faults.scenarios import Caching, Grid, Training, publish_digits, small_digits, small_recipe, write_images

PEOPLE, IMAGES = 10, 5


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("images") / "images.npz")


def at_once(task, *argument_lists):
    """Run a task in several processes at once; none may fail."""
    processes = [child(task, *arguments) for arguments in argument_lists]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


def _launch(scenario, folder, log):
    """Launch a grid, and write a line for each run that is trained here."""
    begin = fits.begin_run

    def logged(trainer, environment):
        with log.open("a") as file:
            file.write(f"{trainer.run.folder.name}\n")
        begin(trainer, environment)

    with patch.object(fits, "begin_run", logged):
        scenario.act(folder)


def test_launchers_share_a_folder_and_train_each_run_once(images, tmp_path, scale, tally):
    grid, launchers = Grid(small_recipe(images), seeds=scale(3, 12)), scale(2, 4)
    grid.act(tmp_path / "alone")
    folder, log = tmp_path / "together", tmp_path / "log"
    at_once(_launch, *[(grid, folder, log)] * launchers)
    trained = log.read_text().split()
    assert sorted(trained) == sorted({run.folder.name for run in runs_under(folder)})
    assert grid.bits(folder) == grid.bits(tmp_path / "alone")
    tally("launchers on one folder", launchers=launchers, runs=len(trained), trained_twice=0, lost=0)


def _train_or_wait(training, folder):
    """Train, and try again while another process is training."""
    from maxmincaps.training.run import InUseError

    while not training.is_done(folder):
        try:
            training.act(folder)
        except InUseError:
            continue


def test_trainings_in_one_folder_make_one_run(images, tmp_path, scale, tally):
    training, rounds = Training(small_recipe(images)), scale(1, 10)
    training.act(tmp_path / "alone")
    for number in range(rounds):
        at_once(_train_or_wait, *[(training, tmp_path / str(number))] * 3)
        assert training.bits(tmp_path / str(number)) == training.bits(tmp_path / "alone")
    tally("trainings in one folder", at_once=3, rounds=rounds, lost=0)


def _write(path, letter, times):
    """Write a file repeatedly, and check that it always has one of the two contents."""
    for _ in range(times):
        write_atomic(path, letter * 100_000)
        assert path.read_bytes() in (b"a" * 100_000, b"b" * 100_000)


def test_writers_of_one_file_never_tear_it_nor_leave_anything_beside_it(tmp_path):
    at_once(_write, *[(tmp_path / "cost.json", letter, 100) for letter in (b"a", b"b")])
    assert [path.name for path in tmp_path.iterdir()] == ["cost.json"]


def _fetch(caching, folder, times):
    """Fetch a dataset again and again, in place of itself, and read it."""
    for _ in range(times):
        caching.act(folder)
        caching.check(folder)


def _read(caching, folder, times):
    """Read a dataset from the cache, its only source."""
    with small_digits(caching.published):
        for _ in range(times):
            assert download.get("mnist", cache=folder / "cache").dataset == "mnist"


def test_fetchers_of_one_dataset_wait_for_each_other(tmp_path, scale, tally):
    caching, times, fetchers = Caching(publish_digits(tmp_path / "published")), scale(3, 100), 3
    caching.act(tmp_path / "alone")
    caching.act(tmp_path / "together")
    readers = [child(_read, caching, tmp_path / "together", times) for _ in range(2)]
    at_once(_fetch, *[(caching, tmp_path / "together", times)] * fetchers)
    for reader in readers:
        reader.join()
        assert reader.exitcode == 0
    assert caching.bits(tmp_path / "together") == caching.bits(tmp_path / "alone")
    tally("fetches of one dataset", at_once=fetchers, fetches=2 * times * fetchers, reads=2 * times, lost=0)


def _answer(path: Path, server: int, opening) -> None:
    """Open a poll as a server does, and store the answers of some people."""
    store = Store.create(path, asked(IMAGES)) if opening else Store.existing(path)

    def one(person: int) -> None:
        name = store.person(store.new_person())
        for number in store.order(name):
            store.answer(name, number, (server + person + number) % 10)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(one, range(PEOPLE)))
    store.close()


def test_polls_share_a_file_and_lose_no_answer(tmp_path, scale, tally):
    path, servers = tmp_path / "poll.sqlite", scale(2, 8)
    at_once(_answer, *[(path, server, True) for server in range(servers)])
    at_once(_answer, *[(path, server, False) for server in range(servers)])
    poll = polls.read(path)
    assert poll.answers == 2 * servers * PEOPLE * IMAGES
    assert poll.people == poll.finished == 2 * servers * PEOPLE
    tally("polls on one file", at_once=servers, answers=poll.answers, lost=0)
