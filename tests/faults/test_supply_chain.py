"""What we build on: the tested versions with their hashes, no network at import, and no telemetry."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def pins(name):
    """Read names and exact versions, names as pip compares them."""
    found = PIN.findall((ROOT / name).read_text(encoding="utf-8"))
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found}


def test_the_lock_names_the_versions_that_are_tested_and_no_other(tally):
    assert pins("lock.txt") == pins("constraints.txt")
    tally("versions", pinned=len(pins("lock.txt")), differing=0)


def test_each_version_in_the_lock_has_hashes_and_no_address(tally):
    lines = (ROOT / "lock.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if not line.startswith("#")]
    hashes = sum(bool(HASH.match(line)) for line in lines)
    assert hashes + len(pins("lock.txt")) == len(lines)  # there is nothing else: no address, no option
    for before, line in zip(["", *lines], lines, strict=False):
        assert line.startswith("    ") or not before.endswith("\\")
        assert line.endswith("\\") or HASH.match(line)
    tally("files of them", hashes=hashes)


def test_all_that_the_package_asks_for_is_in_the_lock():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=]", one)[0].replace("_", "-").lower() for one in asked} - {"maxmincaps"}
    assert names <= pins("lock.txt").keys()


WATCHED = """
import contextlib, importlib, io, json, pkgutil, sys
NETWORK = "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"
asked = []
sys.addaudithook(lambda event, given: asked.append(f"{event} {given[1:]}") if event in NETWORK else None)

import maxmincaps.app.explorer  # first, as `maxmincaps app` does
modules = [module.name for module in pkgutil.walk_packages(maxmincaps.__path__, "maxmincaps.")]
for name in modules:
    if not name.endswith("__main__"):
        importlib.import_module(name)
at_import = list(asked)

import numpy as np
from gradio.analytics import analytics_enabled
from huggingface_hub.constants import HF_HUB_DISABLE_TELEMETRY
from maxmincaps.cli import main

np.savez("images.npz", images=np.zeros((30, 12, 12), np.uint8), labels=np.arange(30) % 3)
sizes = "--conv-channels 4 --conv-kernel 3 --types 2 --primary-kernel 3 --decoder 8 --epochs 1 --threads 1"
commands = [f"train --out run --dataset images.npz --quiet {sizes}", "verify run", "evaluate run", "runs .",
    "look tuning run", "look evolution run", "export run --to hub --out hub", "study list", "data list"]
for words in commands:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(words.split())
observed = {"modules": len(modules), "at_import": at_import, "commands": len(commands), "later": asked[len(at_import):]}
print(json.dumps({**observed, "analytics": analytics_enabled(), "hub_is_silent": HF_HUB_DISABLE_TELEMETRY}))
"""


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """The connections of a process that imported every module and ran commands."""
    folder = tmp_path_factory.mktemp("alone")
    command = [sys.executable, "-W", "ignore", "-c", WATCHED]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "hub" / "config.json").exists()  # the commands did what they should
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_importing_any_part_of_the_package_opens_no_network_connection(observed, tally):
    assert observed["modules"] > 80
    assert observed["at_import"] == []
    tally("modules", imported=observed["modules"], connections=0, names_asked_for=0)


def test_training_analysis_and_export_open_no_network_connection(observed, tally):
    assert observed["later"] == []
    assert not observed["analytics"]
    assert observed["hub_is_silent"]
    tally("commands", run=observed["commands"], connections=0, names_asked_for=0)
