"""Untrusted datasets, archives and pictures are read, or refused in one line that names them."""

import contextlib
import gzip
import io
import tarfile
import zipfile
from base64 import b64encode

import numpy as np
import pytest

from maxmincaps import InputError
from maxmincaps.app import uploads
from maxmincaps.cli import main
from maxmincaps.data import archives
from maxmincaps.data.image_files import read_picture
from tests.data.test_fuzz import FORMATS, picture
from tests.faults.hostile_files import damaged, encoded, harmful_json, inputs

pytestmark = pytest.mark.filterwarnings("ignore")  # of decoders, about what they can read all the same


def lying_npy(random):
    """Return an .npy file with a false header."""
    claims = [
        {"shape": (2**40, 28, 28)},
        {"shape": (-8, 28, 28)},
        {"shape": (8, 28)},
        {"shape": 8},
        {"shape": (8.0, 28, 28)},
        {"shape": ()},
        {"descr": "|O"},
        {"descr": "<U1000000"},
        {"descr": "<f8"},
        {"descr": [("a", "|O")]},
        {"descr": "__import__('os').system('true')"},
        {"fortran_order": "yes"},
        {"more": 1},
    ]
    head = {"descr": "|u1", "fortran_order": False, "shape": (8, 28, 28), **claims[random.integers(len(claims))]}
    text = [repr(head), "(" * 5000, repr(head) + " " * 70_000, "__import__('os')"][max(0, random.integers(-9, 4))]
    text = text.encode().ljust(118) + b"\n"
    version, length = (b"\x01\x00", 2) if len(text) < 65536 else (b"\x02\x00", 4)
    return b"\x93NUMPY" + version + len(text).to_bytes(length, "little") + text + bytes(8 * 28 * 28)


def lying_npz(random):
    """Write an .npz file: names that lead elsewhere, twice the same name, arrays that lie, sizes that lie."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
        labels = io.BytesIO()
        np.save(labels, np.arange(8) % 2)
        for name in [["images.npy", "labels.npy"], ["../images.npy", "/labels.npy"], ["images.npy"] * 2][
            random.integers(3)
        ]:
            with contextlib.suppress(UserWarning):
                members.writestr(name, lying_npy(random) if "images" in name else labels.getvalue())
        members.writestr("labels.npy", labels.getvalue())
    found = bytearray(file.getvalue())
    if random.random() < 0.5:
        at = found.rfind(b"PK\x01\x02") + 20 + 4 * int(random.integers(2))  # a size in the last entry of the directory
        found[at : at + 4] = [b"\xff" * 4, b"\x00\x00\x00\x80", bytes(4)][random.integers(3)]
    return bytes(found)


def lying_archive(suffix, random):
    """Write an archive whose members would leave their folder, link elsewhere, or unpack to very much."""
    names = ["../some", "/some", "a/../../some", "..\\some", "C:/some", "some", "x/some", "some\x00.txt", "some" * 100]
    name, file = names[random.integers(len(names))], io.BytesIO()
    content = [b"x" * 500, bytes(1 << 22)][random.integers(2)]
    if suffix == ".zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
            members.writestr(zipfile.ZipInfo(name), content)
        return file.getvalue()
    with tarfile.open(fileobj=file, mode="w") as members:
        member = tarfile.TarInfo(name)
        member.type = [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE][
            random.integers(5)
        ]
        member.linkname = "/etc/passwd"
        member.size = len(content) if member.isreg() else 0
        members.addfile(member, io.BytesIO(content))
    return gzip.compress(file.getvalue(), 1)


def lying_picture(form):
    """Write pictures whose header claims any size."""
    whole = picture(form)
    offset = {"PNG": 16, "GIF": 6, "BMP": 18}.get(form, 4)

    def lie(random):
        found = bytearray(whole)
        sizes = [b"\xff" * 8, b"\x00\x00\xff\xff" * 2, b"\x7f\xff\xff\xff" * 2, bytes(8), b"\x00\x01" * 4]
        found[offset : offset + 8] = sizes[random.integers(len(sizes))]
        return bytes(found)

    return lie


MANIFEST = {"dataset": "x", "source": "y", "regenerated": True, "sha256": {"a": "b"}, "seed": 0}
LIES = {
    "npz": lying_npz,
    "compressed npz": lying_npz,
    "npy": lying_npy,
    "tgz": lambda random: lying_archive(".tgz", random),
    "zip": lambda random: lying_archive(".zip", random),
    "manifest": lambda random: encoded(harmful_json(MANIFEST, random)),
    "JSON labels": lambda random: encoded(harmful_json([1, 2, 3], random)),
    **{name: lying_picture(name.upper()) for name in ("PNG", "GIF", "BMP", "TIFF")},
}


def test_datasets_are_read_or_refused(readings, tmp_path, scale, tally):
    for name, (suffix, make, read) in FORMATS.items():
        folder = tmp_path / name
        folder.mkdir()
        path, whole = folder / f"some{suffix}", make()
        path.with_suffix(".whole").write_bytes(whole)
        harmful = LIES.get(name, lambda random, whole=whole: damaged(damaged(whole, random), random))
        for what, content in inputs(scale(12, 417), whole, harmful, readings.canary):
            path.write_bytes(content)
            readings.read(lambda read=read, path=path: read(path), str(tmp_path), f"{name} {what}")
    assert {path.name for path in tmp_path.iterdir()} == set(FORMATS)  # nothing was written beside the folders
    readings.conclude(tally, "datasets")


@pytest.mark.parametrize("suffix", [".zip", ".tgz"])
def test_no_member_of_an_archive_leaves_its_folder(tmp_path, suffix):
    archive, folder = tmp_path / f"some{suffix}", tmp_path / "unpacked"
    folder.mkdir()
    for number in range(60):
        archive.write_bytes(lying_archive(suffix, np.random.default_rng(number)))
        with contextlib.suppress(InputError):
            archives.unpack(archive, {"some": 1000}, folder)
    assert {path.name for path in tmp_path.iterdir()} == {archive.name, "unpacked"}
    assert all(path.name == "some" and not path.is_symlink() for path in folder.iterdir())


def test_images_are_read_or_refused(readings, tmp_path, scale, tally):
    path = tmp_path / "some.png"
    for form in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"):
        for what, content in inputs(scale(30, 1430), picture(form), lying_picture(form), readings.canary):
            path.write_bytes(content)
            readings.read(lambda: read_picture(path, "RGB", 12, 12), path.name, f"{form} {what}")
            url = f"data:image/png;base64,{b64encode(content).decode()}"
            readings.read(lambda url=url: uploads.prepare_upload(url, (1, 28, 28)), "", f"{form} {what} uploaded")
            readings.read(lambda url=url: uploads.prepare_drawing(url, (1, 28, 28)), "", f"{form} {what} drawn")
    readings.conclude(tally, "images")


def test_a_user_without_a_home_folder_is_asked_for_a_cache_folder(tmp_path, monkeypatch, capsys):
    pwd = pytest.importorskip("pwd")

    def no_entry(_):
        raise KeyError("uid not found")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    for name in ("HOME", "XDG_CACHE_HOME", "MAXMINCAPS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["data", "list"])
    assert (ended.value.code, "set MAXMINCAPS_CACHE" in capsys.readouterr().err) == (2, True)
    assert not any(tmp_path.iterdir())
