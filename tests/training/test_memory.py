import ctypes
import os
import subprocess
import sys

import pytest

from maxmincaps.training.environment import keep_large_blocks

GLIBC = os.name == "posix" and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")

LOOP = """
import resource, sys, torch
from maxmincaps.training.environment import keep_large_blocks

def faults_of_four_steps():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.ones(12_000_000).mul(2)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = [keep_large_blocks() for _ in range(int(sys.argv[1]))]
# The heap reaches its size after a random number of steps, so the fewest faults count.
print(kept, min(faults_of_four_steps() for _ in range(8)))
"""


def run(calls: int, **environment: str) -> tuple[str, int]:
    """Print what each call returned and the page faults of four steps that use two blocks of 48 MB each."""
    done = subprocess.run(
        [sys.executable, "-c", LOOP, str(calls)],
        env={**os.environ, "GLIBC_TUNABLES": "", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    kept, faults = done.stdout.rsplit(maxsplit=1)
    return kept, int(faults)


@pytest.mark.skipif(not GLIBC, reason="only glibc's allocator has this setting")
def test_kept_blocks_are_not_faulted_in_again_however_often_they_are_asked_for():
    _, without = run(0)
    kept, faults = run(2)
    assert kept == "[True, True]"
    assert faults < without / 20


@pytest.mark.skipif(not GLIBC, reason="only glibc's allocator has this setting")
def test_an_environment_variable_switches_it_off():
    _, without = run(0)
    kept, faults = run(1, MAXMINCAPS_KEEP_MEMORY="0")
    assert kept == "[False]"
    assert faults > without / 2


@pytest.mark.parametrize("system", ["another C library", "Windows"])
def test_elsewhere_nothing_is_called(monkeypatch: pytest.MonkeyPatch, system: str):
    if system == "Windows":
        monkeypatch.setattr(os, "name", "nt")
    # A library without any function: a call of one would raise.
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert keep_large_blocks() is False
