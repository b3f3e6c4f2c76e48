"""The user's own images in arrays: any usual name, layout and type, and what is refused."""

import zipfile

import numpy as np
import pytest
import torch

from maxmincaps.data import own
from maxmincaps.data.images import load, splits
from maxmincaps.errors import InputError
from maxmincaps.recipe import DataSettings

LABELS = np.arange(30) % 3
PIXELS = np.random.default_rng(0).integers(0, 256, (30, 12, 10, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("arrays", "shape"),
    [
        ({"images": PIXELS, "labels": LABELS}, (24, 3, 12, 10)),
        ({"x": PIXELS[..., 0], "y": LABELS}, (24, 1, 12, 10)),
        ({"X": PIXELS.transpose(0, 3, 1, 2), "y": LABELS[:, None].astype(np.uint8)}, (24, 3, 12, 10)),
        ({"images": PIXELS.astype(np.float32) / 255, "labels": LABELS}, (24, 3, 12, 10)),
        ({"images": PIXELS[..., :1].astype(np.int64), "labels": LABELS}, (24, 1, 12, 10)),
        ({"images": PIXELS > 128, "labels": LABELS}, (24, 3, 12, 10)),
        ({"x_train": PIXELS, "y_train": LABELS, "x_test": PIXELS[:5], "y_test": LABELS[:5]}, (30, 3, 12, 10)),
        (
            {"train_images": PIXELS, "train_labels": LABELS, "test_images": PIXELS[:5], "test_labels": LABELS[:5]},
            (30, 3, 12, 10),
        ),
    ],
)
@pytest.mark.parametrize("form", ["npz", "compressed npz", "npy folder", "npy file"])
def test_arrays_of_any_usual_name_layout_and_type_are_read(tmp_path, arrays, shape, form):
    if form.endswith("npz"):
        path = tmp_path / "own.npz"
        (np.savez_compressed if form == "compressed npz" else np.savez)(path, **arrays)
    else:
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        path = tmp_path if form == "npy folder" else tmp_path / f"{next(iter(arrays))}.npy"
    train, test = (load(path, split) for split in ("train", "test"))
    assert train.images.shape == shape
    assert len(test) == (5 if len(arrays) == 4 else 6)
    assert train.classes == ("0", "1", "2")


def test_pixels_keep_their_value_whatever_their_type(tmp_path):
    found = []
    for number, pixels in enumerate((PIXELS, PIXELS / 255, PIXELS.astype(np.int32), np.asfortranarray(PIXELS))):
        np.savez(tmp_path / f"{number}.npz", images=pixels, labels=LABELS)
        found.append(load(tmp_path / f"{number}.npz", "test").images)
    assert all(torch.equal(found[0], other) for other in found)
    assert {image.numpy().tobytes() for image in found[0]} <= {image.transpose(2, 0, 1).tobytes() for image in PIXELS}


def test_classes_can_be_named(tmp_path):
    np.savez(tmp_path / "own.npz", images=PIXELS, labels=LABELS, classes=np.array(["cat", "dog", "owl"]))
    assert load(tmp_path / "own.npz").classes == ("cat", "dog", "owl")


def test_arrays_can_be_resized_and_made_grey(tmp_path):
    np.savez(tmp_path / "own.npz", images=PIXELS, labels=LABELS)
    assert load(tmp_path / "own.npz", image_size=7, grey=True).images.shape == (24, 1, 7, 7)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"pictures": PIXELS}, r"expected train_images \+ .* or images \+ labels or .*, found pictures"),
        ({"images": PIXELS, "labels": LABELS[:-1]}, "as many labels as images, found 29 in labels and 30 in images"),
        ({"images": PIXELS, "labels": LABELS - 1}, r"labels: expected a row of whole numbers from 0, .*from -1"),
        ({"images": PIXELS, "labels": LABELS * 1.0}, "labels: expected a row of whole numbers from 0, found float64"),
        ({"images": PIXELS, "labels": LABELS * 2}, "expected images of every class, found none of '1'"),
        (
            {"images": PIXELS, "labels": LABELS + 10**9},
            "expected labels below the number of images, 30, found 1000000002",
        ),
        ({"images": PIXELS, "labels": LABELS * 0}, "expected 2 classes or more, found 1"),
        ({"images": PIXELS, "labels": LABELS, "classes": np.array(["a", "b"])}, r"expected labels in 0…1, found 2"),
        ({"images": PIXELS, "labels": LABELS, "classes": np.array(list("abcd"))}, "found none of 'd'"),
        ({"images": PIXELS, "labels": LABELS, "classes": LABELS}, "classes: expected a row of names"),
        ({"images": PIXELS[..., :2], "labels": LABELS}, r"found uint8 of shape \(30, 12, 10, 2\)"),
        ({"images": PIXELS[:, 0, 0], "labels": LABELS}, r"found uint8 of shape \(30, 3\)"),
        ({"images": PIXELS * 1.0, "labels": LABELS}, r"expected float64 pixels in 0…1, found 0\.0 … 255\.0"),
        ({"images": PIXELS * np.nan, "labels": LABELS}, r"expected float64 pixels in 0…1, found nan"),
        ({"images": PIXELS.astype(int) - 1, "labels": LABELS}, r"expected int64 pixels in 0…255, found -1"),
        ({"images": PIXELS[:0], "labels": LABELS}, "expected as many labels as images, found 30 in labels and 0"),
        ({"images": PIXELS * 1j, "labels": LABELS}, "expected numbers or names, found complex128"),
        ({"images": np.array([None] * 30), "labels": LABELS}, "expected numbers or names, found object"),
    ],
)
def test_broken_arrays_are_refused_in_one_line_that_names_them(tmp_path, arrays, says):
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=says) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_test_labels_must_be_among_the_training_classes(tmp_path):
    np.savez(tmp_path / "own.npz", x_train=PIXELS, y_train=LABELS, x_test=PIXELS, y_test=LABELS + 1)
    with pytest.raises(InputError, match=r"expected labels in 0…2, found 3"):
        load(tmp_path / "own.npz", "test")


def test_there_may_be_fewer_test_images_than_classes(tmp_path):
    np.savez(tmp_path / "own.npz", x_train=PIXELS, y_train=LABELS, x_test=PIXELS[:1], y_test=np.array([2]))
    assert load(tmp_path / "own.npz", "test").labels.tolist() == [2]


def divided_arrays(path, train_shape, test_shape):
    sets = {"train": np.zeros((4, *train_shape), np.uint8), "test": np.zeros((2, *test_shape), np.uint8)}
    labels = {f"{split}_labels": np.arange(len(images)) % 2 for split, images in sets.items()}
    np.savez(path, **{f"{split}_images": images for split, images in sets.items()}, **labels)
    return path


@pytest.mark.parametrize(("shape", "found"), [((32, 32), "1×32×32"), ((28, 28, 3), "3×28×28")])
def test_test_images_must_be_like_the_training_images_before_anything_is_trained(tmp_path, shape, found):
    path = str(divided_arrays(tmp_path / "own.npz", (28, 28), shape))
    with pytest.raises(InputError, match=rf"own\.npz: expected test images of 1×28×28 .*, found {found}"):
        splits(DataSettings(dataset=path))
    alike = splits(DataSettings(dataset=path, image_size=28, grey=True))
    assert alike.train.images.shape[1:] == alike.test.images.shape[1:] == (1, 28, 28)


@pytest.mark.parametrize("split", ["train", "test"])
def test_images_of_an_array_can_be_written_to_as_torch_asks(tmp_path, split):
    path = divided_arrays(tmp_path / "own.npz", (28, 28), (28, 28))
    pixels, labels, _ = own.read(path, split, image_size=None, grey=None, seed=0)
    assert pixels.flags.writeable
    assert labels.flags.writeable


def test_a_header_that_claims_two_billion_images_is_refused_without_making_room_for_them(tmp_path):
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (2147483648, 28, 28), }\n"
    absurd = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\x00" * 100
    np.save(tmp_path / "labels.npy", LABELS)
    with zipfile.ZipFile(tmp_path / "own.npz", "w") as file:
        file.writestr("images.npy", absurd)
        file.write(tmp_path / "labels.npy", "labels.npy")
    with pytest.raises(InputError, match="expected the 1,683,627,180,032 bytes that its header claims, found 100"):
        load(tmp_path / "own.npz")


def test_a_name_that_is_neither_dataset_nor_file_is_answered_with_the_right_names(tmp_path):
    with pytest.raises(
        InputError, match=r"no dataset is called 'mnits'; there are mnist-5k, mnist, .*or give a folder"
    ):
        load("mnits")
    with pytest.raises(InputError, match=r"expected an .npz file, found no such file"):
        load(tmp_path / "missing.npz")
    with pytest.raises(InputError, match=r"no split is called 'valid'"):
        load("mnist-5k", "valid")
