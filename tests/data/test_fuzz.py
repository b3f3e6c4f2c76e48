"""Mutated files of every format are read, or refused in one line that names the file: no crash, no hang, no flood.

A few hundred mutations a format by default; MAXMINCAPS_FUZZ=5000 makes it thousands.
"""

import gzip
import io
import os
import resource
import sys
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from maxmincaps.data import archives, cache, formats, larochelle
from maxmincaps.data.images import load
from maxmincaps.errors import InputError

MUTATIONS = int(os.environ.get("MAXMINCAPS_FUZZ", "200"))
MOST_GROWTH = 600 << 20  # bytes that reading any one format's mutated files may add to the process
RANDOM = np.random.default_rng(0)
EXTREMES = [
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff" * 8,
    b"\n",
    b"9" * 12,
]


def mutated(whole, random):
    """Damage a file in one to four places, or cut it off."""
    found = bytearray(whole)
    for _ in range(random.integers(1, 5)):
        at = int(random.integers(0, max(1, min(len(found), random.choice([64, 512, 1 << 30])))))
        kind = random.integers(6)
        if kind == 0:
            del found[at:]
        elif kind == 1 and found:
            found[min(at, len(found) - 1)] ^= 1 << int(random.integers(8))
        elif kind == 2:
            found[at : at + 4] = random.bytes(4)
        elif kind == 3:
            extreme = EXTREMES[random.integers(len(EXTREMES))]
            found[at : at + len(extreme)] = extreme
        elif kind == 4:
            del found[at : at + int(random.integers(1, 100))]
        else:
            found[at:at] = found[at : at + int(random.integers(1, 100))]
    return bytes(found)


def digits(count=3):
    return RANDOM.integers(0, 256, (count, 28, 28), dtype=np.uint8)


def amat():
    rows = digits(3).reshape(3, -1) / 256
    return "\n".join(" ".join([*(f"{number:.4g}" for number in row), "7"]) for row in rows).encode()


def csv():
    return "\n".join(",".join(map(str, [*row, 7])) for row in digits(3).reshape(3, -1)).encode()


def picture(form, mode="RGB", side=12):
    file = io.BytesIO()
    Image.fromarray(RANDOM.integers(0, 256, (side, side + 2, 3), dtype=np.uint8)).convert(mode).save(file, form)
    return file.getvalue()


def cifar_picture():
    file = io.BytesIO()
    Image.fromarray(RANDOM.integers(0, 256, (3, 1024, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def tgz():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name in ("package/some", "package/other"):
            info = tarfile.TarInfo(name)
            info.size = 500
            tar.addfile(info, io.BytesIO(b"x" * 500))
    return file.getvalue()


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("folder/some", bytes(RANDOM.bytes(500)))
        members.writestr("folder/other", "x" * 500)
    return file.getvalue()


def npz(compressed):
    file = io.BytesIO()
    arrays = {"images": digits(8), "labels": np.arange(8) % 2, "classes": np.array(["cat", "dog"])}
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def npy():
    file = io.BytesIO()
    np.save(file, digits(8))
    return file.getvalue()


def unpack_to(path):
    folder = path.parent / "unpacked"
    folder.mkdir(exist_ok=True)
    archives.unpack(path, {"some": 1000, "other": 1000}, folder)


def read_tar_inside(path):
    """Read the mutated tar from a valid gzip, so that mutations reach the tar."""
    archive = path.with_suffix(".gz.tgz")
    archive.write_bytes(gzip.compress(path.read_bytes(), 1))
    unpack_to(archive)


def read_in_folder(path):
    folder = path.parent / "own"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(2):
            target = folder / name / f"{number}{path.suffix}"
            if not target.exists():
                target.write_bytes(path.with_suffix(".whole").read_bytes())
    (folder / "cat" / f"0{path.suffix}").write_bytes(path.read_bytes())
    for split in ("train", "test"):
        load(folder, split, image_size=10)


def read_npy_folder(path):
    folder = path.parent / "arrays"
    folder.mkdir(exist_ok=True)
    np.save(folder / "labels.npy", np.arange(8) % 2)
    (folder / "images.npy").write_bytes(path.read_bytes())
    load(folder)


def read_manifest(path):
    folder = path.parent / "dataset"
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_bytes(path.read_bytes())
    cache.manifest_of(folder)


def read_photograph(path):
    folder = path.parent / "photographs"
    folder.mkdir(exist_ok=True)
    (folder / "one.png").write_bytes(path.read_bytes())
    larochelle.read_photographs(folder)


FORMATS = {
    "IDX": (".idx", lambda: formats.idx_bytes(digits()), lambda path: formats.parse_idx(path.read_bytes(), path)),
    "IDX gz": (
        ".gz",
        lambda: gzip.compress(formats.idx_bytes(digits())),
        lambda path: formats.parse_idx(formats.content(path, 3000), path),
    ),
    "CIFAR batch": (".bin", lambda: RANDOM.bytes(3073 * 2), lambda path: formats.parse_cifar(path.read_bytes(), path)),
    "CIFAR picture": (".png", cifar_picture, lambda path: formats.read_cifar_picture(path, 3)),
    "JSON labels": (".json", lambda: b"[1,2,3]", lambda path: formats.read_json_labels(path, 3)),
    "CSV": (".csv", csv, lambda path: formats.read_csv(path, 3, label_first=False)),
    "AMAT": (".amat", amat, lambda path: formats.read_amat(path, 3)),
    "AMAT gz": (".gz", lambda: gzip.compress(amat()), lambda path: formats.read_amat(path, 3)),
    "tgz": (".tgz", tgz, unpack_to),
    "tar in gz": (".tar", lambda: gzip.decompress(tgz()), read_tar_inside),
    "zip": (".zip", zipped, unpack_to),
    "npz": (".npz", lambda: npz(False), load),
    "compressed npz": (".npz", lambda: npz(True), load),
    "npy": (".npy", npy, read_npy_folder),
    "manifest": (".json", lambda: b'{"dataset":"x","source":"y","regenerated":true,"sha256":{"a":"b"}}', read_manifest),
    "photograph": (".png", lambda: picture("PNG", "L", 112), read_photograph),
    "PNG": (".png", lambda: picture("PNG"), read_in_folder),
    "palette PNG": (".png", lambda: picture("PNG", "P"), read_in_folder),
    "JPEG": (".jpg", lambda: picture("JPEG"), read_in_folder),
    "GIF": (".gif", lambda: picture("GIF", "P"), read_in_folder),
    "BMP": (".bmp", lambda: picture("BMP"), read_in_folder),
    "WebP": (".webp", lambda: picture("WEBP"), read_in_folder),
    "TIFF": (".tif", lambda: picture("TIFF"), read_in_folder),
    "PPM": (".ppm", lambda: picture("PPM"), read_in_folder),
}


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.filterwarnings("ignore")  # of decoders, about what they can read all the same
@pytest.mark.parametrize("name", FORMATS)
def test_mutated_files_are_read_or_refused_in_one_line(tmp_path, name):
    suffix, make, read = FORMATS[name]
    whole = make()
    path = tmp_path / f"some{suffix}"
    path.write_bytes(whole)
    path.with_suffix(".whole").write_bytes(whole)
    read(path)
    before, refusals = peak_bytes(), []
    for number in range(MUTATIONS):
        path.write_bytes(mutated(whole, np.random.default_rng([number, 7])))
        try:
            read(path)
        except InputError as error:
            refusals.append(str(error))
    assert len(refusals) > MUTATIONS / 20
    assert all(str(tmp_path) in refusal and "\n" not in refusal for refusal in refusals)
    assert peak_bytes() - before < MOST_GROWTH
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} <= {
        *{path.name, path.with_suffix(".whole").name, "some", "other", "some.gz.tgz"},
        *{"labels.npy", "images.npy", "manifest.json", "one.png", f"0{suffix}", f"1{suffix}"},
    }
