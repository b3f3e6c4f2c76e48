"""Fixtures of the package's tests: its wheel, and environments with nothing else."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLEAN = "MAXMINCAPS_CLEAN_INSTALL"
"""Set it to any value to install the wheel into new environments, which takes minutes each."""
opt_in = pytest.mark.skipif(CLEAN not in os.environ, reason=f"takes minutes; set {CLEAN} to run it")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


class Environment:
    """A new environment, in a folder of its own, without the checkout."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", folder / "clean"], check=True)

    def call(self, program, *words, code=0):
        """Run one of its programs and return its output."""
        command = [self.folder / "clean" / "bin" / program, *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def install(self, what):
        """Install at the tested versions; torch by itself first, as an open range would take gigabytes."""
        constraints = ROOT / "constraints.txt"
        torch = next(line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
        self.call("pip", "install", torch)
        self.call("pip", "install", "--constraint", constraints, what)


@pytest.fixture
def clean(tmp_path):
    return Environment(tmp_path)


@pytest.fixture
def free_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        return taken.getsockname()[1]
