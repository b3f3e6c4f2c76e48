"""Several processes train as one does: the same result, the same refusals, and all of them stop together."""

import os
import signal
import threading
import time
from multiprocessing import active_children

import pytest
import torch

from maxmincaps import fit
from maxmincaps.errors import DivergedError, InputError
from maxmincaps.training.checkpoint import CHECKPOINT
from maxmincaps.training.observer import Observer
from tests.training.bits import weights_of


def test_two_processes_give_the_result_of_one_within_rounding(whole, tiny, tmp_path):
    twice = fit(tiny(processes=2), tmp_path / "two")
    for name, ours in weights_of(twice).items():
        torch.testing.assert_close(ours, weights_of(whole)[name], rtol=1e-3, atol=1e-4)
    for line, alone in zip(twice.history, whole.history, strict=True):
        assert line["train_loss"] == pytest.approx(alone["train_loss"], rel=1e-4)


def test_the_threads_of_this_process_are_divided_among_its_processes_once(tiny, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # by which a process would know that it has been divided
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        record = fit(tiny(processes=2, threads=None, epochs=1, train_images=50), tmp_path / "run")
    finally:
        torch.set_num_threads(before)
    assert record.environment["threads"] == 2


class AtOnce(Observer):
    """Wants to stop after the first step."""

    def wants_to_stop(self):
        return True


def test_two_processes_stop_when_the_observer_wants_it(tiny, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(processes=2), tmp_path / "run", observer=AtOnce())
    assert (tmp_path / "run" / CHECKPOINT).exists()
    assert not active_children()


def test_a_signal_to_the_first_process_stops_all_before_the_record_is_given_free(tiny, tmp_path):
    def press():
        while not (tmp_path / "run" / "data.json").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(processes=2, epochs=100), tmp_path / "run")
    assert not active_children()
    assert (tmp_path / "run" / CHECKPOINT).exists()


def test_a_divergence_in_two_processes_is_told_as_in_one(tiny, tmp_path):
    with pytest.raises(DivergedError, match="last good weights are in"):
        fit(tiny(processes=2, learning_rate=1e30), tmp_path / "run")


def test_a_batch_too_small_for_the_processes_is_told_before_anything_is_written(tiny, tmp_path):
    with pytest.raises(InputError, match="the last batch of an epoch has 1 of 17 images, too few for 2 processes"):
        fit(tiny(processes=2, train_images=17, batch_size=8), tmp_path / "run")
    assert not (tmp_path / "run").exists()
