"""Readers give back what writers wrote, and say in one line what is wrong with anything else."""

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from maxmincaps.data import formats
from maxmincaps.errors import InputError


@given(shape=st.one_of(st.tuples(st.integers(0, 5)), st.tuples(*[st.integers(0, 5)] * 3)), seed=st.integers(0, 99))
def test_idx_files_are_read_as_they_were_written(shape, seed):
    array = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    found = formats.parse_idx(formats.idx_bytes(array), "some")
    assert found.shape == shape
    assert (found == array).all()


def test_a_header_that_claims_two_billion_images_is_refused_without_making_room_for_them():
    absurd = b"\x00\x00\x08\x03" + struct.pack(">3I", 2**31, 28, 28) + b"\x00" * 100
    with pytest.raises(InputError, match="some: expected the 2147483648×28×28 bytes that its header claims, found 100"):
        formats.parse_idx(absurd, "some")


@pytest.mark.parametrize(
    "found", [b"", b"\x00\x00", b"\x00\x00\x0d\x03" + b"\x00" * 20, b"\x1f\x8b\x08\x00", b"<html>"]
)
def test_a_wrong_magic_number_is_named(found):
    with pytest.raises(InputError, match="some: expected an IDX file that begins 00 00 08"):
        formats.parse_idx(found, "some")


def test_cifar_batches_are_read_as_they_were_written():
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (7, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(0, 10, 7, dtype=np.uint8)
    found = formats.parse_cifar(formats.cifar_bytes(pixels, labels), "some")
    assert (found[0] == pixels).all()
    assert (found[1] == labels).all()


def test_a_cifar_picture_holds_one_image_a_row(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)
    Image.fromarray(pixels.reshape(5, 3, 1024).transpose(0, 2, 1).copy()).save(tmp_path / "batch.png")
    assert (formats.read_cifar_picture(tmp_path / "batch.png", 5) == pixels).all()
    with pytest.raises(InputError, match="expected a colour image of 6 rows"):
        formats.read_cifar_picture(tmp_path / "batch.png", 6)


def amat_text(pixels, labels):
    """Write Larochelle's text: the pixels of each image column by column, over 256."""
    lines = []
    for image, label in zip(pixels, labels, strict=True):
        numbers = [image[row, column] / 256 for column in range(28) for row in range(28)]
        lines.append("   ".join(f"{number:.6g}" for number in [*numbers, label]))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("zipped", [False, True])
def test_amat_rows_are_columns_of_grey_values_over_256(tmp_path, zipped):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    text = amat_text(pixels, [3, 1, 4, 1, 5]).encode()
    path = tmp_path / ("some.amat.gz" if zipped else "some.amat")
    path.write_bytes(gzip.compress(text) if zipped else text)
    found, labels = formats.read_amat(path, 5)
    assert (found == pixels).all()
    assert labels.tolist() == [3, 1, 4, 1, 5]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[: len(text) // 2], "expected 5 rows of 785 numbers"),
        (lambda text: text + text, "expected 5 rows of 785 numbers, found"),
        (lambda text: text.replace("0.5", "half"), "expected 5 rows of 785 numbers, found .*cannot be read"),
        (lambda text: text.replace("0.5", "1.5"), "expected pixels in 0…1"),
        (lambda text: text.replace("0.5", "nan"), "expected 5 rows of 785 numbers"),
        (lambda text: text.replace("   7\n", "   17\n"), "expected labels in 0…9, found 17"),
        (lambda text: text.replace("   7\n", "   7.5\n"), "expected whole numbers in 0…255"),
        (lambda text: text.replace("\n", " "), "found a line of over 65536 bytes|expected 5 rows"),
        (lambda text: "", "expected 5 rows of 785 numbers"),
        (lambda text: "0 " * 1_000_000, "found a line of over 65536 bytes"),
    ],
)
def test_a_broken_table_is_refused_in_one_line_that_names_it(tmp_path, change, says):
    pixels = np.full((5, 28, 28), 128, np.uint8)
    path = tmp_path / "some.amat"
    path.write_text(change(amat_text(pixels, [7] * 5)))
    with pytest.raises(InputError, match=says) as caught:
        formats.read_amat(path, 5)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("label_first", [False, True])
def test_csv_rows_hold_the_label_and_the_pixels(tmp_path, label_first):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 784))
    labels = np.array([[7], [8], [9]])
    table = np.concatenate([labels, pixels] if label_first else [pixels, labels], axis=1)
    path = tmp_path / "some.csv"
    np.savetxt(path, table, fmt="%d", delimiter=",", header="label,pixels" if label_first else "", comments="")
    found, answers = formats.read_csv(path, 3, label_first=label_first)
    assert (found.reshape(3, 784) == pixels).all()
    assert answers.tolist() == [7, 8, 9]


def test_a_file_that_unpacks_to_more_than_it_should_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\x00" * 10_000_000))
    with pytest.raises(InputError, match="expected at most 1,000 bytes, found more"):
        formats.content(path, 1000)


@pytest.mark.parametrize(
    "text", ["[1, 2", "{}", "[1, 2]", '[1, 2, "3"]', "[1, 2, 300]", "[1, 2, true]", "[" * 5000, "\xff"]
)
def test_labels_that_are_not_a_list_of_so_many_are_refused(tmp_path, text):
    path = tmp_path / "labels.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"labels\.json: expected"):
        formats.read_json_labels(path, 3)
