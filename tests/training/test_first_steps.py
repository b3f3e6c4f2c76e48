"""The research observer of the first steps, as an example of what an observer can see."""

import importlib.util
import math
from pathlib import Path

import pytest

from maxmincaps import CombinedObserver, fit
from maxmincaps.errors import DivergedError
from tests.training.bits import equal_bits
from tests.training.test_not_finite import exploding  # noqa: F401
from tests.training.test_stopped import StopAt

SPEC = importlib.util.spec_from_file_location("watch", Path(__file__).parents[2] / "research" / "watch.py")
watch = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(watch)


def watched(recipe, folder, steps, **options):
    try:
        return fit(recipe, folder, observer=watch.FirstSteps(folder, steps), **options)
    finally:
        watched.lines = [
            watch.WatchedStep.parse(line, folder) for line in (folder / "steps.jsonl").read_text().splitlines()
        ]


def test_the_first_steps_are_described_and_observing_changes_nothing(whole, tiny, tmp_path):
    run = watched(tiny(), tmp_path / "run", 4)
    assert equal_bits(run, whole)
    assert [line.step for line in watched.lines] == [1, 2, 3, 4]
    assert watched.lines[0].gradients.keys() == {"conv1", "primary", "votes", "decoder"}
    assert all(0 < line.class_length < line.longest_class_length < 1 for line in watched.lines)
    assert all(0 <= low <= middle <= high <= 1 for line in watched.lines for low, middle, high in [line.couplings])


def test_steps_that_a_killed_run_makes_again_are_observed_once(tiny, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), folder, observer=CombinedObserver(watch.FirstSteps(folder, 5), StopAt(2)))
    lines = (folder / "steps.jsonl").read_text()
    (folder / "steps.jsonl").write_text(lines + lines.splitlines()[-1].replace('"step": 2', '"step": 3') + "\n")
    watched(tiny(), folder, 5, resume=True)
    assert [line.step for line in watched.lines] == [1, 2, 3, 4, 5]


def test_steps_that_are_skipped_are_not_observed(exploding, tiny, tmp_path):  # noqa: F811
    run = watched(tiny(normalization=exploding, non_finite="skip"), tmp_path / "run", 6)
    assert run.result.skipped_steps == 1
    assert [line.step for line in watched.lines] == [1, 3, 4, 5, 6]
    assert all(math.isfinite(line.loss) for line in watched.lines)


def test_a_run_that_diverges_keeps_the_observations_before(exploding, tiny, tmp_path):  # noqa: F811
    with pytest.raises(DivergedError, match="step 2 "):  # not 3: observing routes too
        watched(tiny(normalization=exploding), tmp_path / "run", 6)
    assert len(watched.lines) == 1
