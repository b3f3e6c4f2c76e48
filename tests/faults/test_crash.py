"""Crashes anywhere: each change of a file fails, ends the process or loses power; then the same call continues.

After each, all files are complete, and the final bits are those of an undisturbed run.
"""

import errno
import random
import shutil
from collections import Counter

import pytest

from maxmincaps.data import download
from tests.faults.children import SAID, disturbed, killed
from tests.faults.injection import DEATH, Fault, Layer, watching
from tests.faults.power import disk_after
from tests.faults.scenarios import Caching, Grid, Training, publish_digits, small_digits, small_recipe, write_images

KILLED = {"training": "trainings", "grid": "launchers that train", "caching": "fetchers of a dataset"}


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("images") / "images.npz")


@pytest.fixture(scope="session")
def scenarios(images, tmp_path_factory):
    return {
        "training": Training(small_recipe(images)),
        "grid": Grid(small_recipe(images, epochs=1, batch_size=32, checkpoint_seconds=60)),
        "caching": Caching(publish_digits(tmp_path_factory.mktemp("digits") / "published")),
    }


class Undisturbed:
    """A scenario, its operations on the file system, and its outcome."""

    def __init__(self, scenario, folder):
        self.scenario, self.folder = scenario, folder
        with watching(Layer(folder)) as layer:
            scenario.act(folder)
        self.operations, self.bits = layer.operations, scenario.bits(folder)

    def places(self, most):
        """Choose operations: all of them, or as many as are allowed, evenly."""
        if isinstance(self.scenario, Grid):  # whose runs do what a training does, where each operation has its turn
            most = min(most, 60)
        return range(0, len(self.operations), max(1, -(-len(self.operations) // most)))

    def goes_on(self, folder):
        """Check that no file is incomplete, and that the same call leaves the same files as without a fault."""
        self.scenario.check(folder)
        self.scenario.act(folder)
        assert self.scenario.bits(folder) == self.bits
        shutil.rmtree(folder)


@pytest.fixture(params=["training", "grid", "caching"])
def undisturbed(request, scenarios, tmp_path_factory):
    return Undisturbed(scenarios[request.param], tmp_path_factory.mktemp(request.param))


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_no_change_of_a_file_goes_past_the_layer(undisturbed, tmp_path):
    disk_after(undisturbed.operations).leave_all(tmp_path)
    assert contents(tmp_path) == contents(undisturbed.folder)


@pytest.mark.parametrize("how", ["fails", "fails from then on"])
def test_each_change_of_a_file_may_fail(undisturbed, how, tmp_path, scale, tally):
    ends = Counter()
    for at in undisturbed.places(scale(4, 10_000)):
        folder = tmp_path / str(at)
        folder.mkdir()
        code, output = disturbed(undisturbed.scenario, folder, Fault(at, how, (errno.EIO, errno.ENOSPC)[at % 2]))
        assert code in (0, SAID), (undisturbed.operations[at], output)
        assert all(line and "\n" not in line and "Error" not in line for line in output), output
        ends["a clear line" if code else "borne"] += 1
        undisturbed.goes_on(folder)
    tally(how, tried=ends.total(), ended_with_a_clear_line=ends["a clear line"], borne=ends["borne"], lost=0)


def test_a_process_may_end_at_each_change_of_a_file_and_in_the_middle_of_each_write(
    undisturbed, tmp_path, scale, tally
):
    places = undisturbed.places(scale(5, 10_000))
    for at in places:
        folder = tmp_path / str(at)
        folder.mkdir()
        code, _ = disturbed(undisturbed.scenario, folder, Fault(at, "ends the process"))
        assert code == DEATH
        undisturbed.goes_on(folder)
    tally("deaths", tried=len(places), lost=0)


def test_the_power_may_fail_after_each_change_of_a_file(undisturbed, tmp_path, scale, tally):
    """Unsynced changes are lost, or some of them are there, torn or out of order."""
    tried = 0
    for at in undisturbed.places(scale(3, 10_000)):
        disk, dice = disk_after(undisturbed.operations[: at + 1]), random.Random(at)
        states = []
        for survives in (lambda: 0.0, dice.random, dice.random):
            folder = tmp_path / f"{at}-{len(states)}"
            folder.mkdir()
            disk.leave(folder, survives)
            if (state := contents(folder)) not in states:
                undisturbed.goes_on(folder)
                tried += 1
            states.append(state)
    tally("states of a disk", tried=tried, lost=0)


def test_a_dataset_that_is_fetched_again_is_never_gone(scenarios, tmp_path, scale, tally):
    caching = scenarios["caching"]
    (tmp_path / "undisturbed").mkdir()
    with watching(Layer(tmp_path / "undisturbed")) as layer:
        caching.act(tmp_path / "undisturbed")
    renames = [number for number, operation in enumerate(layer.operations) if operation.target == "cache/mnist"]
    places = range(renames[0] + 2, len(layer.operations), scale(5, 1))  # the folder's fsync has come after the rename
    for at in places:
        folder = tmp_path / str(at)
        folder.mkdir()
        disk_after(layer.operations[: at + 1]).leave(folder, random.Random(at).random)
        with small_digits(caching.published):
            assert download.get("mnist", cache=folder / "cache").dataset == "mnist"
    tally("moments", tried=len(places), lost=0)


@pytest.mark.parametrize("name", KILLED)
def test_a_process_may_be_killed_at_any_moment(name, scenarios, tmp_path, scale, tally):
    scenario, dice, hits, runs = scenarios[name], random.Random(name), Counter(), 0
    (tmp_path / "undisturbed").mkdir()
    undisturbed = Undisturbed(scenario, tmp_path / "undisturbed")
    (tmp_path / "timed").mkdir()
    whole_s = killed(scenario, tmp_path / "timed", 600).lived_s
    while hits.total() < scale(2, {"training": 50, "grid": 30, "caching": 20}[name]):
        runs += 1
        folder = tmp_path / str(runs)
        folder.mkdir()
        for _ in range(dice.randint(1, 6)):
            kill = killed(scenario, folder, dice.uniform(0, whole_s))
            if kill.was_done:
                break
            hits[kill.phase] += 1
            scenario.check(folder)
        undisturbed.goes_on(folder)
    phases = {f"in_{phase}": number for phase, number in hits.items()}
    tally(f"SIGKILLs of {KILLED[name]}", tried=hits.total(), lost=0, **phases)
