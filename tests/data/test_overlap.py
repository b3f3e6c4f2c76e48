"""Laws of overlapping images."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from maxmincaps.data.batches import batches
from maxmincaps.data.images import MOST_SHIFT, ImageSet, overlapping, splits
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe


def singles(count=40, classes=3, size=(5, 7)):
    generator = Generator().manual_seed(1)
    pixels = torch.randint(1, 256, (count, 1, *size), generator=generator).to(torch.uint8)
    return ImageSet(pixels, torch.arange(count) % classes, tuple("abcdef"[:classes]), "some")


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 99), st.integers(2, 6), st.integers(7, 40))
def test_an_image_is_the_clipped_sum_of_itself_and_one_of_another_class_both_shifted(seed, classes, count):
    single = singles(count, classes)
    pairs = overlapping(single, Generator().manual_seed(seed))
    assert pairs.objects is not None
    assert (pairs.labels[:, 0] == single.labels).all()
    assert (pairs.labels[:, 0] != pairs.labels[:, 1]).all()
    assert torch.equal(pairs.images.int(), pairs.objects.int().sum(dim=1).clamp(max=255))
    assert pairs.images.shape[2:] == (5 + 2 * MOST_SHIFT, 7 + 2 * MOST_SHIFT)
    known = {tuple(image.flatten().tolist()): label for image, label in zip(single.images, single.labels, strict=True)}
    for objects, labels in zip(pairs.objects, pairs.labels, strict=True):
        for single_object, label in zip(objects, labels, strict=True):
            rows, columns = single_object[0].nonzero().T
            digit = single_object[:, rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
            assert known[tuple(digit.flatten().tolist())] == label


def test_shifts_reach_every_place_of_the_canvas_and_no_further():
    pairs = overlapping(singles(600), Generator().manual_seed(0))
    corners = {tuple(image[0].nonzero()[0].tolist()) for image in pairs.objects.flatten(0, 1)}
    assert corners == {(down, right) for down in range(2 * MOST_SHIFT + 1) for right in range(2 * MOST_SHIFT + 1)}


def test_the_same_generator_gives_the_same_pairs_and_another_one_others():
    first, again, other = (overlapping(singles(), Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)


def test_images_of_one_class_cannot_overlap():
    with pytest.raises(InputError, match="two or more classes"):
        overlapping(singles(classes=1), Generator())


def test_a_batch_has_both_labels_and_both_images_as_targets():
    pairs = overlapping(singles(), Generator().manual_seed(0))
    found = list(batches(pairs, 16, seed=0, epoch=0, world=2, rank=1))
    for batch in found:
        assert batch.labels.shape == (len(batch), 2)
        assert torch.allclose(batch.targets.sum(dim=1).clamp(max=1), batch.images)


def test_test_pairs_of_a_recipe_are_always_the_same_and_training_keeps_its_single_images():
    recipe = Recipe(overlap=True, validation=500, train_images=100)
    first, again = splits(recipe), splits(recipe)
    assert first.digest() == again.digest()
    assert [len(each) for each in (first.train, first.validation, first.test)] == [100, 500, 1000]
    assert first.single is not None
    assert torch.equal(first.single.labels, first.train.labels[:, 0])
    assert first.test.images.shape[1:] == (1, 36, 36)


def test_multi_mnist_is_mnist_with_overlap():
    assert Recipe(dataset="multi-mnist") == Recipe(dataset="mnist", overlap=True)
    assert Recipe(dataset="multi-mnist").run_name.startswith("multi-mnist-max-min-r3-s0-")


@pytest.mark.parametrize("change", [{"shift": 2}, {"rotate": 9.0}, {"flip": True}, {"crop": 24}])
def test_augmentation_is_refused_as_it_would_not_move_the_single_images(change):
    with pytest.raises(InputError, match="overlap"):
        Recipe(overlap=True, **change)
