"""Several processes train as one does: the same result, the same refusals, and all of them stop together."""

import ipaddress
import json
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import active_children

import psutil
import pytest
import torch

from maxmincaps import fit
from maxmincaps.errors import DivergedError, InputError
from maxmincaps.training import processes
from maxmincaps.training.checkpoint import CHECKPOINT, load_tensors
from maxmincaps.training.observer import Observer
from tests.training.bits import weights_of


def test_two_processes_share_the_threads_and_give_the_result_of_one_within_rounding(whole, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    twice = fit(tiny(processes=2, threads=None), tmp_path / "two")
    assert twice.environment.threads == 2
    for name, ours in weights_of(twice).items():
        torch.testing.assert_close(ours, weights_of(whole)[name], rtol=1e-3, atol=1e-4)
    for line, alone in zip(twice.history, whole.history, strict=True):
        assert line.train_loss == pytest.approx(alone.train_loss, rel=1e-4)


class Listeners(Observer):
    """Writes the addresses that the training process listens on."""

    def __init__(self, path):
        self.path = path

    def stepped(self, loss):
        listening = [each for each in psutil.Process().net_connections() if each.status == psutil.CONN_LISTEN]
        self.path.write_text(json.dumps([each.laddr.ip for each in listening]))


def test_the_processes_of_a_training_are_not_reached_from_other_machines(tiny, tmp_path):
    fit(tiny(processes=2, epochs=1), tmp_path / "run", observer=Listeners(tmp_path / "listeners"))
    addresses = json.loads((tmp_path / "listeners").read_text())
    assert addresses, "gloo listens on an address of its own"
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)


class Hungry(Observer):
    """Allocates more memory than there is, in the process that trains."""

    def stepped(self, loss):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")


def test_lack_of_memory_in_one_of_two_processes_is_reported_as_in_one(tiny, tmp_path):
    with pytest.raises(MemoryError, match="can't allocate memory"):
        fit(tiny(processes=2), tmp_path / "run", observer=Hungry())
    assert not active_children()


class AtOnce(Observer):
    """Wants to stop after the first step."""

    def should_stop(self):
        return True


def test_two_processes_stop_when_the_observer_wants_it(tiny, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(processes=2), tmp_path / "run", observer=AtOnce())
    assert (tmp_path / "run" / CHECKPOINT).exists()
    assert not active_children()


def test_a_signal_to_the_first_process_stops_all_before_the_run_is_unlocked(tiny, tmp_path):
    def press():
        while not (tmp_path / "run" / "data.json").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(processes=2, epochs=100), tmp_path / "run")
    assert not active_children()
    assert (tmp_path / "run" / CHECKPOINT).exists()


COMMAND = """
import signal, sys, threading, time
from pathlib import Path
from maxmincaps.cli import main

def touch_when_done():
    for listening in (True, False):
        while (signal.getsignal(signal.SIGINT) is not signal.default_int_handler) != listening:
            time.sleep(0.01)
    Path(sys.argv[1]).touch()

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs start with it ignored
threading.Thread(target=touch_when_done, daemon=True).start()
main(sys.argv[2:])
"""
"""The command line; it touches a file when a run has stopped handling Ctrl-C."""


def test_a_second_ctrl_c_ends_processes_that_do_not_come_to_the_end_of_their_step(tiny, tmp_path):
    (tmp_path / "recipe.json").write_text(tiny(processes=2, epochs=9_999, checkpoint_seconds=0.0).to_json())
    noted, run = tmp_path / "noted", tmp_path / "run"
    words = ["train", "--quiet", "--recipe", tmp_path / "recipe.json", "--out", run]
    command = subprocess.Popen(
        [sys.executable, "-c", COMMAND, noted, *words], start_new_session=True, stderr=subprocess.PIPE, text=True
    )

    def until(path):
        while not path.exists():
            assert command.poll() is None, "it ended too early"
            time.sleep(0.02)

    until(run / CHECKPOINT)
    processes = [each for each in psutil.Process(command.pid).children() if "spawn_main" in " ".join(each.cmdline())]
    for process in processes:
        process.suspend()
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does
    until(noted)
    os.killpg(command.pid, signal.SIGINT)
    _, errors = command.communicate()
    assert (command.returncode, "Traceback" in errors) == (130, False), errors
    assert errors.splitlines()[-1].startswith("maxmincaps: stopped, nothing is lost")
    assert len(processes) == 2
    assert not any(process.is_running() for process in processes)
    assert load_tensors(run / CHECKPOINT)[1]["state"]["step"] > 0


def test_a_divergence_in_two_processes_is_reported_as_in_one(tiny, tmp_path):
    with pytest.raises(DivergedError, match="last good weights are in"):
        fit(tiny(processes=2, learning_rate=1e30), tmp_path / "run")


def test_a_batch_too_small_for_the_processes_is_reported_before_anything_is_written(tiny, tmp_path):
    with pytest.raises(InputError, match="the last batch of an epoch has 1 of 17 images, too few for 2 processes"):
        fit(tiny(processes=2, train_images=17, batch_size=8), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_processes_that_the_machine_has_no_devices_for_are_refused_in_one_line(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "find_device", torch.device)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    with pytest.raises(InputError, match=r"^2 processes take a device each: found 1 of cuda"):
        fit(tiny(processes=2, device="cuda"), tmp_path / "run")
    with pytest.raises(InputError, match="2 processes take a device each: expected cpu, found cpu:0"):
        fit(tiny(processes=2, device="cpu:0"), tmp_path / "run")
