"""Laws of an epoch's batches."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmincaps.data.augment import for_training
from maxmincaps.data.batches import batch_count, batches, ordered
from maxmincaps.data.images import ImageSet
from maxmincaps.recipe import DataSettings

AUGMENT = for_training(DataSettings(shift=2, rotate=15, crop=8))


def some(count=53):
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (count, 1, 10, 10), generator=generator).to(torch.uint8)
    return ImageSet(pixels, torch.arange(count) % 3, ("a", "b", "c"), "some")


def epoch(**changes):
    return list(batches(some(), **{"batch_size": 8, "seed": 0, "epoch": 0, "augment": AUGMENT, **changes}))


def together(found):
    return torch.cat([batch.indices for batch in found])


def same(one, other):
    return (
        torch.equal(one.images, other.images)
        and torch.equal(one.labels, other.labels)
        and torch.equal(one.indices, other.indices)
    )


def test_an_epoch_holds_every_image_once():
    assert together(epoch()).sort().values.tolist() == list(range(53))


def test_a_batch_holds_the_pixels_and_labels_of_its_indices():
    images = some()
    for batch in epoch(augment=None):
        assert torch.equal((batch.images * 255).round().to(torch.uint8), images.images[batch.indices])
        assert torch.equal(batch.labels, images.labels[batch.indices])
        assert batch.images.dtype == torch.float32
        assert batch.images.max() <= 1


def test_the_same_seed_and_epoch_give_the_same_bits():
    assert all(same(*pair) for pair in zip(epoch(seed=5, epoch=2), epoch(seed=5, epoch=2), strict=True))


@pytest.mark.parametrize("change", [{"seed": 1}, {"epoch": 1}])
def test_another_seed_or_epoch_gives_another_order_and_augmentation(change):
    assert together(epoch()).tolist() != together(epoch(**change)).tolist()
    whole = torch.full((53, 1, 10, 10), 255, dtype=torch.uint8)
    flat = ImageSet(whole, torch.zeros(53, dtype=torch.int64), ("a",), "flat")
    one, other = (
        next(batches(flat, 53, **{"seed": 0, "epoch": 0, "augment": AUGMENT, **settings})) for settings in ({}, change)
    )
    assert not torch.equal(one.images, other.images)


@settings(max_examples=20)
@given(skip=st.integers(0, 9))
def test_an_epoch_resumed_at_a_batch_goes_on_with_the_same_bits(skip):
    assert all(same(*pair) for pair in zip(epoch(skip=skip), epoch()[skip:], strict=True))


def test_the_batches_of_one_epoch_are_augmented_differently():
    image = some(1).images.expand(16, -1, -1, -1)
    alike = ImageSet(image, torch.zeros(16, dtype=torch.int64), ("a",), "alike")
    one, other = batches(alike, 8, seed=0, epoch=0, augment=AUGMENT)
    assert not torch.equal(one.images, other.images)


@pytest.mark.parametrize("world", [2, 3])
def test_processes_together_see_what_one_would_see(world):
    alone = epoch()
    shares = [epoch(rank=rank, world=world) for rank in range(world)]
    for batch, *parts in zip(alone, *shares, strict=True):
        assert torch.equal(batch.images, torch.cat([part.images for part in parts]))
        assert torch.equal(batch.labels, torch.cat([part.labels for part in parts]))
        assert torch.equal(batch.indices, torch.cat([part.indices for part in parts]))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


@settings(max_examples=40)
@given(count=st.integers(1, 60), batch_size=st.integers(1, 70))
def test_the_count_is_the_number_of_batches(count, batch_size):
    found = list(batches(some(count), batch_size, seed=0, epoch=0))
    assert len(found) == batch_count(count, batch_size)
    assert all(len(batch) == batch_size for batch in found[:-1])


def test_evaluation_sees_all_images_in_their_order():
    images = some()
    found = list(ordered(images, 8, "cpu", lambda pixels: pixels[..., :5]))
    assert together(found).tolist() == list(range(53))
    assert torch.equal(torch.cat([batch.labels for batch in found]), images.labels)
    seen = torch.cat([batch.images for batch in found])
    assert torch.equal((seen * 255).round().to(torch.uint8), images.images[..., :5])
