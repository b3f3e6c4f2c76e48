"""An export that is killed, or that meets a full or read-only disk, leaves nothing that looks complete."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from maxmincaps import CapsNet, InputError, fit, load_network
from maxmincaps.export.card import new_directory, save_for_hub
from maxmincaps.files import staging_directory, write_atomic
from tests.faults.children import command
from tests.faults.own import own_recipe, write_own

FORMS = {"onnx": "net.onnx", "torch": "net.pt2", "hub": "hub", "run": "small"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    return fit(own_recipe(write_own(folder / "images.npz"), epochs=1), folder / "run").folder


@pytest.mark.parametrize("form", FORMS)
def test_a_disk_without_room_is_one_line_and_leaves_nothing(run, tmp_path, form):
    words = ["export", str(run), "--to", form, "--out", str(tmp_path / FORMS[form])]
    code, output = command(words, limits={resource.RLIMIT_FSIZE: 3000})
    assert (code, output.count("\n"), "Traceback" in output) == (2, 1, False), output
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_that_cannot_be_written_is_one_line(run, form):
    code, output = command(["export", str(run), "--to", form, "--out", f"/proc/nowhere/{FORMS[form]}"])
    assert (code, output.count("\n"), "cannot be written" in output) == (2, 1, True), output


def _killed_while_building(out):
    with new_directory(out) as new:
        (new / "recipe.json").write_text("{}")
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_export_does_not_look_complete_and_the_next_one_clears_it_away(run, tmp_path):
    out = tmp_path / "out"
    process = multiprocessing.get_context("fork").Process(target=_killed_while_building, args=(out,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not out.exists()
    assert len(list(tmp_path.iterdir())) == 1
    save_for_hub(run, out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert CapsNet.from_pretrained(out).config == load_network(run).config


def test_a_staging_directory_in_use_is_not_cleared_away(tmp_path):
    with staging_directory(tmp_path / "out") as one, staging_directory(tmp_path / "out") as other:
        assert one != other
        assert one.exists()


def test_two_that_write_one_file_leave_one_of_the_two_contents(tmp_path):
    contents = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda content: write_atomic(tmp_path / "net.onnx", content), contents))
    assert (tmp_path / "net.onnx").read_bytes() in contents
    assert len(list(tmp_path.iterdir())) == 1


def test_an_old_folder_that_was_put_aside_comes_back(tmp_path):
    """A process that is killed between the two renames of a replacement."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom maxmincaps.files import staging_directory\n"
        "target = Path(sys.argv[1])\n"
        "with staging_directory(target) as staging:\n"
        "    target.rename(staging / 'old')\n    os.kill(os.getpid(), 9)\n"
    )
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").write_text("old")
    subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    assert not target.exists()
    with staging_directory(target):
        assert (target / "file").read_text() == "old"


def test_an_occupied_folder_is_refused_before_anything_is_built(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="not an empty folder"), new_directory(tmp_path):
        pytest.fail("nothing should be built")
