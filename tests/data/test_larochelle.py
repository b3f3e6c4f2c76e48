"""The regenerated sets follow the stated procedure."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from maxmincaps.data import larochelle
from maxmincaps.data.formats import parse_idx
from maxmincaps.data.images import load
from maxmincaps.errors import InputError


def literal_rotation(image, radians):
    """Turn one image pixel by pixel: normalised Gaussian weights, σ = 0.30, over the 4×4 neighbours of the origin."""
    turned = np.zeros((28, 28))
    for row in range(28):
        for column in range(28):
            down, right = row - 13.5, column - 13.5
            y = 13.5 + math.cos(radians) * down - math.sin(radians) * right
            x = 13.5 + math.sin(radians) * down + math.cos(radians) * right
            total, weights = 0.0, 0.0
            for r in range(math.floor(y) - 1, math.floor(y) + 3):
                for c in range(math.floor(x) - 1, math.floor(x) + 3):
                    weight = math.exp(-((y - r) ** 2 + (x - c) ** 2) / (2 * 0.30**2))
                    weights += weight
                    total += weight * image[r, c] if 0 <= r < 28 and 0 <= c < 28 else 0.0
            turned[row, column] = total / weights
    return turned


@pytest.fixture(scope="module")
def digits():
    images = load("mnist-5k", "test")
    return images.images[:, 0], images.labels


def test_rotation_agrees_with_the_literal_kernel(digits):
    images = torch.cat([digits[0][:3], torch.full((1, 28, 28), 255, dtype=torch.uint8)])
    radians = torch.tensor([0.3, 2.0, 4.4, 0.8], dtype=torch.float64)
    found = larochelle.rotated(images, radians).numpy().astype(float)
    for image, angle, turned in zip(images.numpy(), radians.tolist(), found, strict=True):
        assert np.abs(turned - literal_rotation(image, angle)).max() <= 0.51


def test_rotation_by_nothing_and_by_a_quarter_hardly_change_a_pixel(digits):
    images = digits[0][:50]
    still = larochelle.rotated(images, torch.zeros(50, dtype=torch.float64))
    quarter = larochelle.rotated(images, torch.full((50,), math.pi / 2, dtype=torch.float64))
    # A neighbour one pixel away weighs exp(−1 / (2 · 0.3²)) = 0.4 %.
    assert (still.int() - images.int()).abs().max() <= 5
    assert (quarter.int() - torch.rot90(images, -1, (1, 2)).int()).abs().max() <= 5


SHA256_OF_ROTATED = """
import hashlib, math, numpy, torch
from maxmincaps.data import larochelle
random = numpy.random.RandomState(0)
digits = torch.from_numpy(random.randint(0, 256, (1000, 28, 28)).astype(numpy.uint8))
turned = larochelle.rotated(digits, torch.from_numpy(random.uniform(0, 2 * math.pi, 1000)))
print(hashlib.sha256(turned.numpy().tobytes()).hexdigest())
"""


def test_rotation_gives_the_same_bytes_on_a_processor_without_vector_instructions():
    run = [sys.executable, "-c", SHA256_OF_ROTATED]
    plain = {**os.environ, "ATEN_CPU_CAPABILITY": "default"}
    first, second = (subprocess.check_output(run, env=environment) for environment in (os.environ, plain))
    assert first == second


@pytest.fixture
def small(monkeypatch, digits):
    """Reduce the sets to 120 and 380 images, drawn from 1,000 digits."""
    monkeypatch.setattr(larochelle, "TRAIN", 120)
    monkeypatch.setattr(larochelle, "TEST", 380)
    monkeypatch.setattr(larochelle, "CANDIDATES", 4000)
    pixels, labels = digits[0][:, None].numpy(), digits[1].numpy()
    return {"train": (pixels[:700], labels[:700]), "test": (pixels[700:], labels[700:])}


def images_in(files, split="train"):
    return parse_idx(files[f"{split}-images-idx3-ubyte"], split)


@pytest.mark.parametrize("name", ["rotated-mnist", "background-mnist"])
def test_the_same_seed_gives_the_same_files_and_another_others(small, name):
    one, again, other = (larochelle.make(name, small, seed) for seed in (0, 0, 1))
    assert one == again
    assert one != other
    assert images_in(one).shape == (120, 28, 28)
    assert images_in(one, "t10k").shape == (380, 28, 28)


def test_background_digits_are_the_pixelwise_maximum_of_digit_and_patch(small, monkeypatch):
    files = larochelle.make("background-mnist", small)
    images, labels = images_in(files), parse_idx(files["train-labels-idx1-ubyte"], "labels")
    pool = np.concatenate([small["train"][0], small["test"][0]])[:, 0]
    answers = np.concatenate([small["train"][1], small["test"][1]])
    chosen = np.random.RandomState(0).permutation(1000)[:120]
    assert (labels == answers[chosen]).all()
    assert (images > pool[chosen]).mean() > 0.7
    monkeypatch.setattr(larochelle, "patches", lambda *_: np.full((500, 28, 28), 100, np.uint8))
    assert (images_in(larochelle.make("background-mnist", small)) == np.maximum(pool[chosen], 100)).all()


def test_no_digit_is_used_twice(small, monkeypatch):
    monkeypatch.setattr(larochelle, "rotated", lambda digits, radians: digits)  # one drawn twice is one image twice
    files = larochelle.make("rotated-mnist", small)
    drawn = np.concatenate([images_in(files), images_in(files, "t10k")]).reshape(500, -1)
    assert len({row.tobytes() for row in drawn}) == 500


def test_the_angles_go_all_the_way_round(small):
    # A bright pixel right of the centre ends up in every quarter.
    pixels = np.zeros((1000, 1, 28, 28), np.uint8)
    pixels[:, 0, 13:15, 22:24] = 255
    files = larochelle.make("rotated-mnist", {split: (pixels[:500], np.zeros(500, int)) for split in ("train", "test")})
    places = images_in(files, "t10k").reshape(380, -1).argmax(1)
    angles = np.degrees(np.arctan2(13.5 - places // 28, places % 28 - 13.5)) % 360
    counts = np.histogram(angles, 8, (0, 360))[0]
    assert counts.min() > 380 / 8 / 2
    assert counts.max() < 380 / 8 * 2


def test_the_chosen_patches_have_the_statistics_of_the_genuine_backgrounds(monkeypatch):
    monkeypatch.setattr(larochelle, "CANDIDATES", 60_000)
    cut = larochelle.patches(larochelle.read_photographs(), 8_000, np.random.RandomState(0))
    found = larochelle.statistics(cut)
    assert found == pytest.approx(larochelle.REAL, abs=0.01)
    assert (cut / 256).std(axis=(1, 2)).min() >= larochelle.LEAST_SD - 1e-3


def test_statistics_are_those_of_numpy():
    images = np.random.default_rng(0).integers(0, 256, (20, 9, 9)).astype(np.uint8)
    images[:, 1:] = images[:, 1:] // 2 + images[:, :-1] // 2
    found, grey = larochelle.statistics(images), images / 256
    assert found["mean"] == pytest.approx(grey.mean())
    assert found["sd"] == pytest.approx(grey.std())
    assert found["horizontal"] == pytest.approx(
        np.corrcoef(grey[:, :, 1:].ravel(), grey[:, :, :-1].ravel())[0, 1], abs=1e-5
    )
    assert found["vertical"] == pytest.approx(np.corrcoef(grey[:, 1:].ravel(), grey[:, :-1].ravel())[0, 1], abs=1e-5)
    border = larochelle.statistics(images, 2)
    edge = np.ones((9, 9), bool)
    edge[2:-2, 2:-2] = False
    assert border["mean"] == pytest.approx(grey[:, edge].mean())


def test_photographs_of_the_users_own_are_used(small, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (60, 60), dtype=np.uint8)
    Image.fromarray(noise).resize((400, 400), Image.Resampling.BICUBIC).save(tmp_path / "own.png")
    own, packaged = (larochelle.make("background-mnist", small, 0, folder) for folder in (tmp_path, None))
    assert own != packaged
    assert images_in(own).shape == (120, 28, 28)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("some.txt", b"hello", "expected photographs .* of 112 pixels or more, found none"),
        ("some.png", b"hello", r"some\.png: expected an image, found"),
    ],
)
def test_a_folder_without_photographs_is_refused(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=says):
        larochelle.read_photographs(tmp_path)


def test_a_photograph_without_contrast_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(larochelle, "CANDIDATES", 4000)
    Image.new("L", (400, 400), 100).save(tmp_path / "flat.png")
    with pytest.raises(InputError, match="expected 100 patches with some contrast, found 0"):
        larochelle.patches(larochelle.read_photographs(tmp_path), 100, np.random.RandomState(0))


def test_without_the_packages_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(InputError, match=r"this needs the optional part data; .* -m pip install -e '\.\[data\]'"):
        larochelle.read_photographs()
