"""Fixtures of all tests: tiny recipes, and the command as a user calls it."""

import os

import pytest
from hypothesis import settings

os.environ.pop("FORCE_COLOR", None)
os.environ["COLUMNS"] = "80"  # the output must not depend on the terminal

from maxmincaps import Recipe
from maxmincaps.cli import main

settings.register_profile(
    "ours", deadline=None
)  # no property is about time, and other processes may slow the tests down
settings.load_profile("ours")

TINY = {
    "conv_channels": 8,
    "types": 2,
    "part_pose": 4,
    "class_pose": 4,
    "decoder": (16,),
    "train_images": 120,
    "test_images": 50,
    "batch_size": 50,
    "epochs": 2,
    "threads": 1,
}


@pytest.fixture
def tiny():
    """The recipe of a run that takes a second: a small network on a few digits."""

    def recipe(**changes):
        return Recipe(**{**TINY, **changes})

    return recipe


@pytest.fixture
def command(capsys):
    """Run a command; return its exit code and its output as one line."""

    def call(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        printed = capsys.readouterr()
        return ended.value.code or 0, " ".join((printed.out + printed.err).split())

    return call
