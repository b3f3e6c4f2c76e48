"""A full disk, a read-only or a vanished folder, no memory: one clear line, an exit code, and nothing is lost."""

import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from maxmincaps import fit
from maxmincaps.training.run import Run
from tests.faults.children import command, started_command
from tests.faults.scenarios import check_run, run_bits, small_recipe, write_images

IN_A_NAMESPACE = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
"""A mount in this namespace needs no privileges, is private, and ends with its process."""


def can_mount(tmp_path):
    mount = [*IN_A_NAMESPACE, 'mount -t tmpfs none "$0"', str(tmp_path)]
    return shutil.which("unshare") and subprocess.run(mount, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run without faults, and the command line that trains another like it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    recipe = small_recipe(write_images(folder / "images.npz"), conv_channels=24, types=4)
    (folder / "recipe.json").write_text(recipe.to_json())
    return fit(recipe, folder / "run")


@pytest.fixture
def train(undisturbed):
    """Return the command line that trains this run in a folder, or continues it there."""

    def words(out):
        anew = ["--recipe", str(undisturbed.folder.parent / "recipe.json")]
        return ["train", "--quiet", "--out", str(out), *(["--resume"] if Run(out).exists else anew)]

    return words


class Trials:
    """Disturbed commands, and how they ended."""

    def __init__(self, undisturbed, train):
        self.undisturbed, self.train, self.ends = undisturbed, train, Counter()

    def ended(self, code, output, out):
        """Check that a command succeeded or failed with one message, left only complete files, and can be continued."""
        assert "Traceback" not in output, output
        assert code in (0, 2), output
        assert (output.count("\n"), output.startswith("maxmincaps: ")) == ((1, True) if code else (0, False)), output
        self.ends[code] += 1
        self.goes_on(out)

    def goes_on(self, out):
        if Run(out).exists:
            check_run(Run(out))
        assert command(self.train(out)) == (0, "")
        self.same_bits(out)

    def same_bits(self, out):
        assert run_bits(Run(out)) == run_bits(self.undisturbed)

    def conclude(self, tally, what, **others):
        assert self.ends[2]
        tally(what, tried=self.ends.total(), ended_with_a_clear_line=self.ends[2], lost=0, **others)


@pytest.fixture
def trials(undisturbed, train):
    return Trials(undisturbed, train)


def spread(most, number):
    """Return `number` evenly spaced values from 0 up to `most`."""
    return [most * step // number for step in range(number)]


def test_files_that_cannot_grow_any_more(trials, train, undisturbed, tmp_path, scale, tally):
    largest = max(path.stat().st_size for path in undisturbed.folder.iterdir()) * 3  # a checkpoint has thrice as much
    for limit in [700 + more for more in spread(largest, scale(3, 25))]:  # a line about it is shorter than that
        out = tmp_path / str(limit)
        trials.ended(*command(train(out), limits={resource.RLIMIT_FSIZE: limit}), out)
    trials.conclude(tally, "limits of size")


def test_a_run_on_a_full_disk_continues_once_there_is_space(trials, undisturbed, tmp_path, scale, tally):
    if not can_mount(tmp_path):
        pytest.skip("a small disk cannot be mounted here")
    disk = tmp_path / "disk"
    disk.mkdir()
    train = f"{sys.executable} -m maxmincaps train --quiet --out {disk}/run"
    every = sum(path.stat().st_size for path in undisturbed.folder.iterdir()) // 1024
    for number, kilobytes in enumerate(spread(every, scale(2, 7))[1:]):
        script = f"""
            mount -t tmpfs -o size={kilobytes}k none {disk}
            {train} --recipe {undisturbed.folder.parent / "recipe.json"}; echo $?
            mount -o remount,size=64m {disk}
            {train} --resume; echo $?
            cp -r {disk}/run {tmp_path / str(number)}
        """
        done = subprocess.run([*IN_A_NAMESPACE, script], capture_output=True, text=True, check=True)
        codes = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
        assert codes == [2, 0], done.stderr
        assert done.stderr.count("\n") == 1
        assert "No space left on device" in done.stderr
        trials.same_bits(tmp_path / str(number))
        trials.ends[2] += 1
    trials.conclude(tally, "full disks")


def test_a_folder_that_is_read_only(trials, train, tmp_path, tally):
    folder = tmp_path / "folder"
    folder.mkdir()
    if os.geteuid():
        folder.chmod(0o555)
        code, output = command(train(folder / "run"))
        folder.chmod(0o755)
    elif can_mount(tmp_path):  # root may write into any folder, but not onto a disk that is read-only
        words = [sys.executable, "-m", "maxmincaps", *train(folder / "run")]
        script = f'mount -t tmpfs -o ro none {folder} && exec "$@"'
        done = subprocess.run([*IN_A_NAMESPACE, script, "sh", *words], capture_output=True, text=True)
        code, output = done.returncode, done.stderr
    else:
        pytest.skip("root may write into every folder, and nothing can be mounted here")
    assert "cannot be written: " in output
    trials.ended(code, output, folder / "run")
    trials.conclude(tally, "read-only folders")


def test_a_folder_that_vanishes_and_perhaps_comes_back(trials, train, tmp_path, scale, tally):
    for number in range(scale(2, 12)):
        out, away = tmp_path / str(number), tmp_path / f"{number} away"
        with started_command([*train(out), "--epochs", "2"]) as running:
            while not (out / "checkpoint.safetensors").exists():
                assert running.process.exitcode is None, "it ended before its checkpoint was seen"
                running.process.join(0.001)
            out.rename(away)
            code, output = running.ended()
        if number % 2:
            shutil.rmtree(out, ignore_errors=True)
            away.rename(out)
        trials.ended(code, output, out)
    trials.conclude(tally, "folders")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc here")
def test_memory_that_is_refused(trials, train, tmp_path, scale, tally):
    for limit in spread(8 << 20, scale(4, 60)):  # more than that it does not ask for
        out = tmp_path / str(limit)
        code, output = command(train(out), limits={resource.RLIMIT_AS: limit})
        if code is not None and code < 0:  # a library that is not Python has ended the process
            trials.ends["silent"] += 1
            trials.goes_on(out)
        else:
            trials.ended(code, output, out)
    trials.conclude(tally, "limits of memory", ended_by_a_library_without_a_line=trials.ends["silent"])


def test_an_output_that_takes_no_more(undisturbed, tmp_path, tally):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no device here that is always full")
    words = [sys.executable, "-m", "maxmincaps", "runs", str(undisturbed.folder.parent)]
    with full.open("w") as output:
        done = subprocess.run(words, stdout=output, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "No space left on device" in done.stderr
    tally("outputs", tried=1, ended_with_a_clear_line=1)


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_stream_that_is_closed_from_the_start(undisturbed, stream):
    words = [sys.executable, "-m", "maxmincaps", "runs", str(undisturbed.folder.parent)]
    done = subprocess.run(["sh", "-c", f'exec "$@" {stream}>&-', "sh", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("run" in done.stdout) == (stream != 1)


def test_a_reader_that_stops_reading(undisturbed):
    words = [sys.executable, "-m", "maxmincaps", "runs", str(undisturbed.folder.parent)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        running.stdout.close()
        assert running.stderr.read() == ""
