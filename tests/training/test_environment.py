"""The environment of a run: machine, versions and commit."""

import os
import runpy
import shutil
import subprocess

import pytest
import torch

from maxmincaps.training import environment as module
from maxmincaps.training.environment import environment


@pytest.fixture(autouse=True)
def no_other_repository(monkeypatch):
    """Git's hooks name theirs in the environment."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)


class Checkout:
    """A repository with a copy of the module where the package would have it."""

    def __init__(self, folder):
        self.package = folder / "package"
        (self.package / "training").mkdir(parents=True)
        self.module = shutil.copy(module.__file__, self.package / "training")
        self.git("init", "-q")
        self.git("commit", "-q", "--allow-empty", "-m", "a")

    def git(self, *words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}  # the user's may require signatures
        subprocess.run(command, cwd=self.package, check=True, env={**os.environ, **own})

    def commit(self):
        return runpy.run_path(str(self.module))["environment"](torch.device("cpu")).commit


def test_the_commit_of_a_repository_that_only_contains_the_environment_is_not_recorded(tmp_path):
    assert Checkout(tmp_path).commit() is None


def test_uncommitted_changes_of_the_package_are_recorded_beside_its_commit(tmp_path):
    checkout = Checkout(tmp_path)
    (checkout.package / "network.py").write_text("first")
    checkout.git("add", ".")
    checkout.git("commit", "-q", "-m", "b")
    commit = checkout.commit()
    (checkout.package / "network.py").write_text("second")
    assert (len(commit), checkout.commit()) == (12, f"{commit}+")


@pytest.mark.parametrize(
    ("precision", "capability", "allowed", "expected"),
    [
        ("fp32", (8, 0), True, "fp32, convolutions tf32"),
        ("fp32", (8, 0), False, "fp32"),
        ("fp32", (7, 5), True, "fp32"),
        ("bf16", (8, 0), True, "bf16"),
    ],
)
def test_a_card_that_rounds_single_precision_is_told(monkeypatch, precision, capability, allowed, expected):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", allowed)
    assert environment(torch.device("cuda"), precision).precision == expected
    assert environment(torch.device("cpu"), precision).precision == precision
