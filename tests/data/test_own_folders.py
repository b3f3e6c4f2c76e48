"""The user's own images in folders: any size, channels and classes."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from maxmincaps.data.images import load, splits
from maxmincaps.errors import InputError
from maxmincaps.recipe import DataSettings

COLOURS = {"green": (0, 200, 0), "red": (200, 0, 0), "blue": (0, 0, 200)}


def write_folder(root, count=10, size=(40, 40), mode="RGB", suffix=".png"):
    """Write a folder of three classes, each image of its class's colour."""
    for name, colour in COLOURS.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            image = Image.new("RGB", size, tuple(part + number for part in colour)).convert(mode)
            image.save(root / name / f"{number:02d}{suffix}")
    return root


def test_a_folder_of_three_classes_of_40_by_40_in_colour(tmp_path):
    train, test = (load(str(write_folder(tmp_path / split)), split) for split in ("train", "test"))
    assert (train.channels, train.height, train.width) == (3, 40, 40)
    assert train.classes == test.classes == ("blue", "green", "red")
    assert train.labels.bincount().tolist() == [8, 8, 8]
    assert test.labels.bincount().tolist() == [2, 2, 2]
    for images in (train, test):
        brightest = images.images.float().mean((2, 3)).argmax(1)
        assert torch.equal(brightest, torch.tensor([2, 1, 0])[images.labels])


def test_training_and_test_images_of_an_undivided_folder_are_all_and_different(tmp_path):
    folder = write_folder(tmp_path / "own")
    train, test = (load(folder, split) for split in ("train", "test"))
    shades = [tuple(image[:, 0, 0].tolist()) for images in (train, test) for image in images.images]
    assert len(set(shades)) == len(shades) == 30


def test_the_seed_decides_the_division(tmp_path):
    folder = write_folder(tmp_path / "own")
    one, again, other = (load(folder, "test", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.images, again.images)
    assert not torch.equal(one.images, other.images)


def test_training_images_are_mixed_so_that_the_first_and_last_hold_all_classes(tmp_path):
    found = splits(DataSettings(dataset=str(write_folder(tmp_path / "own", 30)), validation=20, train_images=20))
    assert set(found.train.labels.tolist()) == {0, 1, 2}
    assert found.validation is not None
    assert set(found.validation.labels.tolist()) == {0, 1, 2}


def test_train_and_test_folders_are_taken_as_they_are(tmp_path):
    write_folder(tmp_path / "train", 6)
    write_folder(tmp_path / "test", 3)
    assert len(load(tmp_path, "train")) == 18
    assert len(load(tmp_path, "test")) == 9


def test_a_test_folder_may_lack_classes_but_not_have_one_of_its_own(tmp_path):
    write_folder(tmp_path / "train", 4)
    write_folder(tmp_path / "test", 4)
    for name in ("green", "blue"):
        shutil.rmtree(tmp_path / "test" / name)
    assert set(load(tmp_path, "test").labels.tolist()) == {2}
    (tmp_path / "test" / "red").rename(tmp_path / "test" / "pink")
    with pytest.raises(InputError, match="pink: expected one of the training classes blue, green, red"):
        load(tmp_path, "test")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".gif", ".webp", ".tif", ".ppm", ".PNG"])
def test_common_formats_are_read(tmp_path, suffix):
    images = load(write_folder(tmp_path / "own", 3, suffix=suffix), grey=False)
    assert images.images.shape == (6, 3, 40, 40)
    assert torch.equal(images.images.float().mean((2, 3)).argmax(1), torch.tensor([2, 1, 0])[images.labels])


@pytest.mark.parametrize("mode", ["L", "1", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_every_mode_of_picture_becomes_grey_or_colour(tmp_path, mode):
    for number, name in enumerate(("black", "white")):
        (tmp_path / "own" / name).mkdir(parents=True)
        for copy in range(3):
            suffix = ".tif" if mode in ("CMYK", "I;16") else ".png"
            white = Image.new("L", (12, 9), 255 * number)
            if mode == "I;16":
                white = Image.fromarray(np.full((9, 12), 65535 * number, np.uint16))
            (white if mode == "I;16" else white.convert("RGB").convert(mode)).save(
                tmp_path / "own" / name / f"{copy}{suffix}"
            )
    for grey, channels in ((True, 1), (False, 3)):
        images = load(tmp_path / "own", grey=grey)
        assert images.images.shape == (4, channels, 9, 12)
        assert torch.equal(images.images.float().mean((1, 2, 3)), 255.0 * images.labels)


def write_grey(folder, values, suffix=".tif"):
    """Write two classes of two pictures each, all with these pixels."""
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(values).save(folder / name / f"{number}{suffix}")
    return folder


@pytest.mark.parametrize("suffix", [".tif", ".png"])
@pytest.mark.parametrize(("value", "seen"), [(250, 0), (260, 1), (32896, 128), (65535, 255)])
def test_a_picture_of_16_bits_is_read_as_one_however_dark_it_is(tmp_path, value, seen, suffix):
    folder = write_grey(tmp_path / "own", np.full((9, 12), value, np.uint16), suffix)
    assert load(folder, grey=True).images.eq(seen).all()


def test_a_picture_of_fractions_is_read_as_they_are_in_an_npz(tmp_path):
    folder = write_grey(tmp_path / "own", np.full((9, 12), 0.5, np.float32))
    assert load(folder, grey=True).images.eq(128).all()
    folder = write_grey(tmp_path / "far", np.full((9, 12), 80.5, np.float32))
    with pytest.raises(InputError, match=r"\.tif: expected fractions in 0…1 as pixels, found 80\.5"):
        load(folder, grey=True)


def test_a_class_may_be_called_train(tmp_path):
    folder = write_folder(tmp_path / "vehicles", 4)
    (folder / "red").rename(folder / "train")
    assert load(folder).classes == ("blue", "green", "train")


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
@pytest.mark.parametrize("grey", [True, False])
def test_what_is_transparent_is_seen_on_white(tmp_path, mode, grey):
    strokes = Image.new("LA", (12, 9), (0, 0))
    strokes.paste((0, 255), (3, 2, 6, 7))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for number in range(2):
            strokes.convert("RGBA").convert(mode).save(tmp_path / name / f"{number}.png")
    expected = torch.full((9, 12), 255, dtype=torch.uint8)
    expected[2:7, 3:6] = 0
    assert (load(tmp_path, grey=grey).images == expected).all()


def test_the_first_image_decides_size_and_colour_unless_told(tmp_path):
    folder = write_folder(tmp_path / "own", 4, size=(20, 10))
    Image.new("L", (50, 60), 9).save(folder / "red" / "00.png")
    assert load(folder).images.shape[1:] == (3, 10, 20)
    assert load(folder, image_size=16).images.shape[1:] == (3, 16, 16)
    assert load(folder, image_size=16, grey=True).images.shape[1:] == (1, 16, 16)
    Image.new("L", (50, 60), 9).save(folder / "blue" / "00.png")
    assert load(folder).images.shape[1:] == (1, 60, 50)


def test_a_picture_taken_sideways_is_seen_upright(tmp_path):
    folder = write_folder(tmp_path / "own", 3, size=(20, 10), suffix=".jpg")
    sideways = Image.Exif()
    sideways[0x0112] = 6
    for file in folder.rglob("*.jpg"):
        Image.open(file).save(file, exif=sideways)
    assert load(folder).images.shape[1:] == (3, 20, 10)


def test_files_that_are_no_pictures_and_what_is_hidden_are_left_alone(tmp_path):
    folder = write_folder(tmp_path / "own", 5)
    (folder / "red" / "notes.txt").write_text("hello")
    (folder / "red" / "._00.png").write_bytes(b"what macOS leaves on other disks")
    (folder / ".git").mkdir()
    (folder / "readme.md").write_text("hello")
    assert len(load(folder, "train")) == 12


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (
            lambda root: (root / "red" / "00.png").write_bytes(b"not a picture"),
            r"red/00\.png: expected an image, found",
        ),
        (lambda root: (root / "red" / "00.png").write_bytes(b""), r"red/00\.png: expected an image, found"),
        (lambda root: (root / "empty").mkdir(), r"empty: expected images \(\.png, .*found none"),
        (lambda root: [file.unlink() for file in (root / "red").glob("0[1-9].png")], "2 images or more of class 'red'"),
        (lambda root: Image.new("1", (9000, 9000)).save(root / "red" / "00.png"), "expected at most 67,108,864 pixels"),
    ],
)
def test_a_broken_folder_is_refused_in_one_line_that_names_the_place(tmp_path, break_it, says):
    folder = write_folder(tmp_path / "own", 5)
    break_it(folder)
    with pytest.raises(InputError, match=says) as caught:
        [load(folder, split) for split in ("train", "test")]
    assert "\n" not in str(caught.value)


def test_a_folder_without_classes_is_refused(tmp_path):
    with pytest.raises(InputError, match="expected 2 subfolders or more, one for each class, found 0"):
        load(tmp_path)


def test_pictures_too_large_for_memory_are_refused_before_they_are_read(tmp_path):
    folder = write_folder(tmp_path / "own", 3, size=(2, 2))
    with pytest.raises(InputError, match=r"expected at most 4 GB of pixels.*--image-size"):
        load(folder, image_size=100_000)
