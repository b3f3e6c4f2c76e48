"""An image file is classified as the test images were."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from maxmincaps import InputError, fit, load_network
from maxmincaps.data.augment import for_testing
from maxmincaps.data.images import load
from maxmincaps.training.evaluate import class_lengths
from maxmincaps.training.predict import Predictor


@pytest.fixture
def own(tmp_path):
    """Images of 30×26 in colour, of two classes."""
    pixels = np.random.default_rng(0).integers(0, 256, (60, 30, 26, 3), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", images=pixels, labels=np.arange(60) % 2)
    return str(tmp_path / "own.npz")


def predicted(folder, image):
    """Classify an image by way of a file."""
    Image.fromarray(image.permute(1, 2, 0).squeeze(-1).numpy()).save(folder / "image.png")
    predictor = Predictor.of(folder)
    return predictor.lengths(predictor.picture(folder / "image.png"))


def said_in_testing(run, image_set):
    """Return the class lengths of an image as in testing."""
    return class_lengths(load_network(run.folder), image_set.take(slice(0, 1)), for_testing(run.recipe))[0]


@pytest.mark.parametrize("changes", [{}, {"whiten": True}, {"image_size": 40, "crop": 33}])
def test_a_file_is_seen_through_the_window_that_the_network_was_tested_through(tiny, tmp_path, changes):
    run = fit(tiny(**{"crop": 24, "epochs": 1, **changes}), tmp_path / "run")
    images = load("mnist-5k", "test", image_size=run.recipe.image_size)
    torch.testing.assert_close(predicted(run.folder, images.images[0]), said_in_testing(run, images))
    old = shutil.copytree(run.folder, tmp_path / "old")
    (old / "data.json").write_text(run.data.model_copy(update={"size_before_crop": None}).to_json())
    torch.testing.assert_close(predicted(old, images.images[0]), said_in_testing(run, images))


def test_the_run_knows_the_size_of_own_images_before_the_crop(tiny, tmp_path, own):
    run = fit(tiny(dataset=own, crop=20, train_images=None, epochs=1), tmp_path / "run")
    images = load(own, "test")
    torch.testing.assert_close(predicted(run.folder, images.images[0]), said_in_testing(run, images))


def test_a_size_that_the_window_cannot_be_cut_from_is_refused(tiny, tmp_path):
    run = fit(tiny(crop=24, epochs=1), tmp_path / "run")
    for height, width in ((20, 28), (2, 2), (10**6, 10**6)):
        run.write("data.json", run.data.model_copy(update={"size_before_crop": (height, width)}))
        with pytest.raises(InputError, match=rf"seen at 24×24, found {height}×{width} cut to 24×24"):
            Predictor.of(run.folder)


@pytest.mark.parametrize("paper", [0, 255])
@pytest.mark.parametrize("size", [(600, 120), (120, 600), (150, 120)])
def test_a_digit_on_a_long_picture_is_seen_as_the_same_digit_on_a_square(tmp_path, size, paper):
    digits = load("mnist-5k", "test")
    digit = Image.fromarray(digits.images[int((digits.labels == 2).nonzero()[0]), 0].numpy()).resize((112, 112))
    for name, whole in (("square", (112, 112)), ("long", size)):
        picture = Image.new("L", whole, 0)
        picture.paste(digit, (whole[0] // 4 * (whole[0] > 120), whole[1] // 4 * (whole[1] > 120)))
        picture.point(lambda light: abs(paper - light)).save(tmp_path / f"{name}.png")
    predictor = Predictor.of()
    square, long = (predictor.picture(tmp_path / f"{name}.png") for name in ("square", "long"))
    assert long.flatten()[0] == paper / 255
    assert predictor.lengths(abs(paper / 255 - square)).argmax() == 2
    assert predictor.lengths(abs(paper / 255 - long)).argmax() == 2


def test_a_line_of_a_million_pixels_is_seen_as_a_line(tmp_path):
    Image.new("L", (1_000_000, 1), 200).save(tmp_path / "line.png")
    assert Predictor.of().picture(tmp_path / "line.png").shape == (1, 28, 28)


def test_a_network_of_own_images_sees_a_long_picture_as_its_folder_was_read(tiny, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 50), dtype=np.uint8)
    for number, pixels in enumerate(noise):
        folder = tmp_path / "own" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
    settings = {"dataset": str(tmp_path / "own"), "image_size": 28, "train_images": None, "epochs": 1}
    run = fit(tiny(**settings), tmp_path / "run")
    tested = {image.numpy().tobytes() for image in load(settings["dataset"], "test", image_size=28).images}
    predictor = Predictor.of(run.folder)
    seen = {
        predictor.picture(path).mul(255).round().to(torch.uint8).numpy().tobytes()
        for path in (tmp_path / "own").rglob("*.png")
    }
    assert tested <= seen
