"""Laws of the augmentations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from maxmincaps.data import augment
from maxmincaps.data.images import ImageSet
from maxmincaps.errors import InputError
from maxmincaps.recipe import DataSettings

EVERYTHING = DataSettings(crop=8, shift=2, rotate=20, flip=True, brightness=0.2, whiten=True)
RANDOM = {
    "random crop": lambda images, generator: augment.random_crop(images, 6, generator),
    "shift": lambda images, generator: augment.shift(images, 2, generator),
    "rotate": lambda images, generator: augment.rotate(images, 20, generator),
    "flip": augment.flip,
    "brightness": lambda images, generator: augment.brightness(images, 0.2, generator),
    "everything": augment.for_training(EVERYTHING),
}


def some(batch=5, channels=3, height=10, width=12, seed=0):
    return torch.rand(batch, channels, height, width, generator=Generator().manual_seed(seed))


def seeded(seed=0):
    return Generator().manual_seed(seed)


@settings(max_examples=50)
@given(right=st.integers(-15, 15), down=st.integers(-15, 15))
def test_a_shift_by_dx_dy_equals_the_slice(right, down):
    images = some()
    expected = torch.zeros_like(images)
    height, width = images.shape[-2:]
    if abs(right) < width and abs(down) < height:
        target = expected[..., max(0, down) : height + min(0, down), max(0, right) : width + min(0, right)]
        target += images[..., max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)]
    moved = augment.shifted(images, torch.full((5,), right), torch.full((5,), down))
    assert torch.equal(moved, expected)


def test_a_random_shift_reaches_every_distance_and_none_beyond():
    images = torch.zeros(4000, 1, 9, 9)
    images[:, :, 4, 4] = 1
    moved = augment.shift(images, 2, seeded()).flatten(1).argmax(1)
    rows, columns = moved // 9, moved % 9
    assert set(rows.tolist()) == set(columns.tolist()) == {2, 3, 4, 5, 6}
    assert torch.corrcoef(torch.stack([rows, columns]).float())[0, 1].abs() < 0.1


@pytest.mark.parametrize(("height", "width"), [(28, 28), (9, 9), (10, 14)])
def test_rotation_by_nothing_is_the_identity(height, width):
    images = some(height=height, width=width)
    torch.testing.assert_close(augment.rotated(images, torch.zeros(5)), images, atol=1e-5, rtol=0)


@pytest.mark.parametrize("quarters", [-1, 1, 2, 3])
@pytest.mark.parametrize("side", [9, 28])
def test_rotation_by_90_degrees_equals_rot90(quarters, side):
    images = some(height=side, width=side)
    turned = augment.rotated(images, torch.full((5,), 90.0 * quarters))
    torch.testing.assert_close(turned, torch.rot90(images, quarters, dims=(-2, -1)), atol=2e-5, rtol=0)


def test_rotation_keeps_shapes_in_images_that_are_not_square():
    # A disc about the centre looks the same from every angle; a wrong aspect ratio would make it an ellipse.
    down, right = torch.meshgrid(torch.arange(21) - 10.0, torch.arange(41) - 20.0, indexing="ij")
    disc = torch.exp(-(down**2 + right**2) / 20)[None, None]
    turned = augment.rotated(disc, torch.tensor([57.0]))
    assert (turned - disc).abs().max() < 0.02


def test_rotation_is_the_bilinear_lookup_written_out():
    images = some(batch=2, channels=1, height=7, width=7)
    degrees = torch.tensor([17.0, -130.0])
    turned = augment.rotated(images, degrees)
    for number, radians in enumerate(torch.deg2rad(degrees).double()):
        for row in range(7):
            for column in range(7):
                down, right = row - 3, column - 3
                y = 3 + radians.cos() * down + radians.sin() * right
                x = 3 - radians.sin() * down + radians.cos() * right
                total = 0.0
                for r in range(7):
                    for c in range(7):
                        total += max(0, 1 - abs(y - r)) * max(0, 1 - abs(x - c)) * images[number, 0, r, c].item()
                assert turned[number, 0, row, column].item() == pytest.approx(float(total), abs=1e-5)


def test_random_rotations_stay_within_their_bound():
    images = torch.zeros(2000, 1, 41, 41)
    images[:, :, 20, 38] = 1
    places = augment.rotate(images, 20, seeded()).flatten(1).argmax(1)
    degrees = torch.rad2deg(torch.atan2(20.0 - places // 41, places % 41 - 20.0))
    assert degrees.abs().max() < 22
    assert degrees.min() < -17
    assert degrees.max() > 17


@settings(max_examples=30)
@given(size=st.integers(1, 10), seed=st.integers(0, 1000))
def test_random_crops_are_windows_of_their_image(size, seed):
    images = some(seed=seed)
    cropped = augment.random_crop(images, size, seeded(seed))
    for image, crop in zip(images, cropped, strict=True):
        windows = image.unfold(1, size, 1).unfold(2, size, 1)
        assert (windows == crop[:, None, None]).flatten(3).all(-1).all(0).any()


def test_random_crops_reach_every_corner():
    images = torch.arange(30.0).view(1, 1, 5, 6).expand(2000, 1, 5, 6)
    corners = augment.random_crop(images, 3, seeded())[:, 0, 0, 0]
    assert set(corners.tolist()) == {6.0 * row + column for row in range(3) for column in range(4)}


def test_the_centre_crop_leaves_equal_borders():
    images = some(height=10, width=12)
    assert torch.equal(augment.centre_crop(images, 6), images[:, :, 2:8, 3:9])


def test_a_flip_mirrors_about_half_of_the_images():
    images = some(batch=400)
    flipped = augment.flip(images, seeded())
    mirrored = (flipped == images.flip(-1)).flatten(1).all(1)
    assert ((flipped == images).flatten(1).all(1) != mirrored).all()
    assert 150 < mirrored.sum() < 250


def test_brightness_adds_one_number_to_all_pixels_of_an_image():
    images = 0.5 + 0.1 * (some(batch=300) - 0.5)
    added = (augment.brightness(images, 0.2, seeded()) - images).flatten(1)
    assert (added.amax(1) - added.amin(1)).max() < 1e-6
    assert added.min() < -0.18
    assert added.max() > 0.18
    assert added.abs().max() <= 0.2 + 1e-6


def test_brightness_stays_inside_zero_to_one():
    bright = augment.brightness(some(), 1.0, seeded())
    assert bright.min() >= 0
    assert bright.max() <= 1


def test_whitened_images_have_mean_zero_and_variance_one_and_flat_ones_become_zero():
    white = augment.whiten(some()).flatten(1)
    torch.testing.assert_close(white.mean(1), torch.zeros(5), atol=1e-5, rtol=0)
    torch.testing.assert_close(white.var(1, correction=0), torch.ones(5), atol=1e-4, rtol=0)
    assert torch.equal(augment.whiten(torch.full((1, 1, 4, 4), 0.5)), torch.zeros(1, 1, 4, 4))


@pytest.mark.parametrize("name", RANDOM)
def test_the_same_generator_gives_the_same_images_and_another_others(name):
    images = some(batch=20)
    once, again, other = (RANDOM[name](images, seeded(seed)) for seed in (3, 3, 4))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)


@pytest.mark.parametrize("name", RANDOM)
def test_images_of_one_batch_are_not_all_changed_alike(name):
    images = some(batch=1).expand(20, -1, -1, -1)
    changed = RANDOM[name](images, seeded())
    assert not (changed == changed[:1]).all()


@pytest.mark.parametrize("name", RANDOM)
def test_an_augmentation_leaves_the_images_it_was_given_alone(name):
    images = some()
    RANDOM[name](images, seeded())
    assert torch.equal(images, some())


def test_no_settings_mean_no_change():
    images = some()
    assert torch.equal(augment.for_training(DataSettings())(images, seeded()), images)
    assert torch.equal(augment.for_testing(DataSettings())(images), images)


@pytest.mark.parametrize(
    ("chosen", "size"),
    [
        (DataSettings(dataset="cifar10"), (24, 24)),
        (DataSettings(dataset="cifar10", crop=0), (32, 30)),
        (DataSettings(dataset="mnist"), (32, 30)),
        (EVERYTHING, (8, 8)),
    ],
)
def test_training_and_testing_give_the_size_that_the_network_is_told(chosen, size):
    images = some(height=32, width=30)
    imageset = ImageSet((images * 255).to(torch.uint8), torch.zeros(5, dtype=torch.int64), ("a", "b"), "some")
    assert augment.image_size_after(chosen, imageset) == size
    assert augment.for_training(chosen)(images, seeded()).shape[-2:] == size
    assert augment.for_testing(chosen)(images).shape[-2:] == size


def test_a_window_larger_than_the_image_is_refused_in_one_line():
    with pytest.raises(InputError, match="inside the images of 10×12, found 11×11"):
        augment.random_crop(some(), 11, seeded())


def test_each_setting_reaches_the_training_images():
    images = some(batch=30, height=12)
    for change in ({"crop": 5}, {"shift": 1}, {"rotate": 5}, {"flip": True}, {"brightness": 0.1}, {"whiten": True}):
        changed = augment.for_training(DataSettings(**change))(images, seeded())
        assert changed.shape != images.shape or not torch.equal(changed, images), change
