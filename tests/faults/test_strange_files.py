"""Untrusted files that are no regular files, or that claim far more than they hold, are refused at once."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from maxmincaps import InputError, Run, fit, load, load_network
from maxmincaps.data.image_files import read_picture
from maxmincaps.report.sample_grid import save_samples
from tests.faults.own import own_recipe, write_own

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes and no /dev/zero")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    return fit(own_recipe(write_own(folder / "images.npz"), epochs=1), folder / "run").folder


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


@pytest.mark.parametrize("name", ["recipe.json", "data.json", "result.json", "best.safetensors", "lengths.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_file_of_a_run_must_be_a_regular_file(copy, name, kind):
    from maxmincaps.training.responses import responses

    (copy / name).unlink()
    if kind == "pipe":
        os.mkfifo(copy / name)
    elif kind == "device":
        (copy / name).symlink_to("/dev/zero")
    else:
        (copy / name).mkdir()
    reads = {
        "recipe.json": lambda: Run(copy).recipe,
        "data.json": lambda: Run(copy).data,
        "result.json": lambda: Run(copy).result,
        "best.safetensors": lambda: load_network(copy),
        "lengths.safetensors": lambda: responses(copy),
    }
    with pytest.raises(InputError, match=name):
        reads[name]()


def test_a_text_file_without_end_is_not_read_to_its_end(copy):
    with (copy / "recipe.json").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of holes
    with pytest.raises(InputError, match="expected at most"):
        _ = Run(copy).recipe


@pytest.mark.parametrize("name", ["images.npz", "picture.png", "recipe.toml"])
def test_a_pipe_that_is_handed_over_does_not_hang(tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    words = {
        "images.npz": ["data", "show", str(path)],
        "picture.png": ["predict", str(path)],
        "recipe.toml": ["train", "--recipe", str(path)],
    }[name]
    done = subprocess.run(
        [sys.executable, "-m", "maxmincaps", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr.count("\n"), name in done.stderr) == (2, 1, True), done.stderr


def test_class_names_are_compared_with_the_weights_before_a_network_is_built(copy):
    data = json.loads((copy / "data.json").read_text())
    (copy / "data.json").write_text(json.dumps({**data, "classes": [str(number) for number in range(300_000)]}))
    with pytest.raises(InputError, match="names 300,000"):
        load_network(copy)


def test_labels_are_counted_before_they_are_read(tmp_path):
    path = tmp_path / "own.npz"
    np.savez_compressed(path, images=np.zeros((4, 28, 28), np.uint8), labels=np.zeros(100_000_000, np.int64))
    assert path.stat().st_size < 1 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="expected as many labels as images"):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


def test_an_image_is_bounded_by_the_memory_that_it_takes(tmp_path):
    Image.new("RGB", (8000, 8000)).save(tmp_path / "large.png")
    assert (tmp_path / "large.png").stat().st_size < 1 << 20
    with pytest.raises(InputError, match="in memory"):
        read_picture(tmp_path / "large.png", "RGB", 28, 28)


def test_large_images_are_drawn_small(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "own" / name).mkdir(parents=True)
        for number in range(2):
            Image.new("L", (4000, 4000), 100).save(tmp_path / "own" / name / f"{number}.png")
    images = load(tmp_path / "own")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    save_samples(images, tmp_path / "samples.png")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250_000  # kB


def test_a_class_folder_whose_name_is_not_utf_8_is_refused(tmp_path):
    for name in (b"cat", b"d\xf6g"):
        folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/own/" + name))
        folder.mkdir(parents=True)
        Image.new("L", (28, 28)).save(folder / "0.png")
    with pytest.raises(InputError, match=r"UTF-8.*rename it"):
        load(tmp_path / "own")
