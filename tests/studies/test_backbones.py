"""The study of heads on a backbone: its grid, and what it measures beyond accuracy."""

import runpy

import pytest
import torch

from maxmincaps import CapsNet, fit
from maxmincaps.recipe import NetworkSettings
from tests.docs.pages import ROOT

NAMES = runpy.run_path(str(ROOT / "research" / "backbones.py"))


def test_the_four_heads_differ_in_nothing_but_the_head():
    recipes = [recipe.model_dump() for recipe in NAMES["STUDY"].grid("small")]
    differing = {name for name in recipes[0] if len({str(recipe[name]) for recipe in recipes}) > 1}
    assert differing == {"head", "normalization", "seed"}
    assert len(recipes) == 12


def test_every_network_of_the_grid_can_be_built():
    for recipe in NAMES["STUDY"].grid("small", seeds=1):
        with torch.device("meta"):
            network = CapsNet(image_shape=(3, 32, 32), **recipe.model_dump(include=set(NetworkSettings.model_fields)))
        assert network.grid == (16, 6, 6)


def test_the_calibration_error_by_hand():
    # Confidences 0.9 (right) and 0.9 (wrong) share a bin: |0.9 − 0.5|. Confidence 0.3 (right) has its own: |0.3 − 1|.
    lengths = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.2, 0.3]])
    expected = (2 * 0.4 + 0.7) / 3
    assert NAMES["calibration_error"](lengths, torch.tensor([0, 1, 1])) == pytest.approx(expected)


def test_calibration_and_changed_images_of_a_run_are_measured(tiny, tmp_path):
    fit(tiny(epochs=1), tmp_path / "run")
    found = NAMES["measure"](tmp_path / "run")
    assert {"test", "rotated 30°", "shifted 8 px", "test, calibration error"} <= found.keys()
    assert all(0 <= value <= 100 for value in found.values())
