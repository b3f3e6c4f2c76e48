"""Fixtures of the command's tests: a run, and a digit in a file."""

import pytest
from PIL import Image

from maxmincaps import fit, load
from maxmincaps.recipe import Recipe
from tests.conftest import TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fit(Recipe(**TINY), tmp_path_factory.mktemp("runs") / "tiny").folder


@pytest.fixture
def seven(tmp_path, monkeypatch):
    """A digit as MNIST has it, light on dark, in a file of the current folder."""
    monkeypatch.chdir(tmp_path)
    digits = load("mnist-5k", "test")
    digit = digits.images[int((digits.labels == 7).nonzero()[0])]
    Image.fromarray(digit[0].numpy()).resize((140, 140)).save(tmp_path / "seven.png")
    return tmp_path / "seven.png"
