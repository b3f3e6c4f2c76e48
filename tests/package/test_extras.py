"""Each optional part is enough for its own commands, and a command that lacks its part names it."""

import json
import re
import subprocess
import sys
import tomllib

import pytest

from tests.package.conftest import ROOT, opt_in

MODULES = {
    "data": ["mlxtend", "skimage", "sklearn", "scipy", "pandas"],
    "report": ["matplotlib", "duckdb"],
    "cluster": ["distributed", "dask"],
    "app": ["gradio", "uvicorn", "starlette", "fastapi"],
    "export": ["onnx", "onnxscript", "onnxruntime"],
    "tensorboard": ["tensorboard"],
    "fast": ["numba"],
}
"""What each part brings, by the names under which it is imported."""

SIZES = "--conv-channels 4 --conv-kernel 3 --types 2 --primary-kernel 3 --decoder 8 --epochs 1 --threads 1"
TRAIN = f"train --out runs/one --dataset images.npz {SIZES}"
CORE = [
    *("evaluate runs/one", "predict image.png --run runs/one", "runs runs", "verify runs/one"),
    *(f"look {name} runs/one" for name in ("evolution", "rows", "outputs", "tuning", "misclassified", "vote")),
    *("study list", "study show datasets", "study status --out runs", "data list", "data check", "recipe"),
    *("export runs/one --to hub --out hub", "export runs/one --to record --out small", "poll status", "poll close"),
]
EXPORT = "export runs/one --to torch --out net.pt2"
"""Also of the core, but too slow to be tried every time."""
LACKING = {
    "report runs": "report",
    "quickstart": "report",
    "data show images.npz": "report",
    "poll report": "report",
    "runs runs --sql=select+1": "report",
    "app runs/one": "app",
    "poll open runs/one": "app",
    "export runs/one --out net.onnx": "export",
    "study run normalizations --yes --scheduler tcp://127.0.0.1:1": "cluster",
    "classifier": "data",
    "train --out runs/board --dataset images.npz --tensorboard board": "tensorboard",
}
"""Commands, and the part that each needs; `classifier` is none, but what scikit-learn's users import."""

PREPARE = """
import numpy as np
from PIL import Image
from pathlib import Path
from maxmincaps.analysis.poll import Poll, Question
from maxmincaps.app.store import Store

random = np.random.default_rng(0)
pixels = random.integers(0, 256, (30, 12, 12), dtype=np.uint8)
np.savez("images.npz", images=pixels, labels=np.arange(30) % 3)
Image.fromarray(pixels[0]).save("image.png")
asked = [Question(0, 1, 2, np.array([0.1, 0.2, 0.9]), pixels[:1], np.zeros(3, np.int64))]
store = Store.create(Path("poll.sqlite"), Poll("own", ("a", "b", "c"), 1, asked))
store.answer("somebody", 0, 1)
store.close()
"""
"""Images of one's own and a poll about one of them, with the core alone."""

HIDE = """
from importlib.machinery import PathFinder

found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in {hidden} else found(name, *rest)
"""

COMMANDS = """
import contextlib, io, json, os
from maxmincaps import InputError
from maxmincaps.cli import main

os.environ["MAXMINCAPS_CACHE"] = os.path.abspath("cache")
outcomes = dict()
for line in {lines}:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            if line == "classifier":
                from maxmincaps import CapsNetClassifier
            else:
                main([word.replace("+", " ") for word in line.split()])
            outcomes[line] = [0, ""]
        except InputError as error:
            outcomes[line] = [2, str(error)]
        except SystemExit as end:
            outcomes[line] = [end.code or 0, output.getvalue()]
print(json.dumps(outcomes))
"""


def test_the_core_does_its_commands_and_every_other_names_the_part_that_it_lacks(tmp_path):
    hidden = {module for modules in MODULES.values() for module in modules}
    script = HIDE.format(hidden=hidden) + PREPARE + COMMANDS.format(lines=[TRAIN, *CORE, *LACKING])
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout.splitlines()[-1])
    for line in (TRAIN, *CORE):
        assert outcomes[line][0] == 0, (line, outcomes[line])
    for line, part in LACKING.items():
        code, output = outcomes[line]
        assert code == 2, (line, output)
        assert f"pip install -e '.[{part}]'" in " ".join(output.split()), (line, output)
    assert not (tmp_path / "quickstart").exists()  # the message precedes anything is trained


def test_every_part_of_the_package_is_tried_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (
        set(project["optional-dependencies"]) - {"all", "dev"} == set(MODULES) == {*LACKING.values(), "fast"}
    )  # no command needs `fast`


def test_the_quickstart_installs_what_it_needs_and_what_it_suggests_at_its_end():
    (installed,) = re.findall(r"quickstart\.ready: EXTRAS := (\S+)", (ROOT / "Makefile").read_text())
    assert {"data", LACKING["quickstart"], LACKING["app runs/one"]} <= set(installed.split(","))


PAGES = """
import subprocess, sys, time, urllib.request
for words in (["app", "runs/one", "--port", "{port}"], ["poll", "open", "--port", "{port}"]):
    command = [sys.executable, "-m", "maxmincaps", *words]
    with subprocess.Popen(command) as page:
        try:
            while True:
                try:
                    print(urllib.request.urlopen("http://127.0.0.1:{port}/").status)
                    break
                except OSError:
                    assert page.poll() is None, "the page has ended"
                    time.sleep(0.2)
        finally:
            page.terminate()
"""
CLUSTER = """
from pathlib import Path
from maxmincaps import Run
from maxmincaps.studies.cluster import local_cluster
from maxmincaps.studies.launch import launch

if __name__ == "__main__":
    with local_cluster(1) as client:
        launch([Run(Path("runs/one")).recipe.with_changes(seed=1)], "grid", client)
    print(len(list(Path("grid").rglob("result.json"))))
"""
ALONE = {
    "core": [],
    "report": ["report runs", "data show images.npz", "poll report", "runs runs --sql=select+1"],
    "export": ["export runs/one --out net.onnx"],
    "data": [
        "classifier",
        "data get mnist-5k",
        f"train --out runs/digits --dataset mnist-5k --train-images 50 {SIZES}",
    ],
    "tensorboard": [f"train --out runs/board --dataset images.npz --tensorboard board {SIZES}"],
    "app": [],
    "cluster": [],
    "fast": [],
}
"""The commands of each part. Those of `app` and `cluster` serve until they are stopped, and have scripts."""


@opt_in
@pytest.mark.parametrize("part", ALONE)
def test_each_part_alone_is_enough_for_its_commands(part, wheel, clean, free_port):
    clean.install(wheel if part == "core" else f"{wheel}[{part}]")
    clean.call("python", "-c", PREPARE)
    outcomes = json.loads(
        clean.call("python", "-c", COMMANDS.format(lines=[TRAIN, EXPORT, *CORE, *ALONE[part]])).splitlines()[-1]
    )
    assert {line: output for line, (code, output) in outcomes.items() if code} == {}
    if part == "app":
        assert clean.call("python", "-c", PAGES.format(port=free_port)).count("200") == 2
    if part == "cluster":
        (clean.folder / "grid.py").write_text(CLUSTER)
        assert clean.call("python", "grid.py").splitlines()[-1] == "1"
    # Gradio and mlxtend bring matplotlib with them.
    present = {part, "report"} if part in ("app", "data") else {part}
    others = [line for line, needed in LACKING.items() if needed not in present]
    outcomes = json.loads(clean.call("python", "-c", COMMANDS.format(lines=others)).splitlines()[-1])
    for line, (code, output) in outcomes.items():
        assert code == 2, (line, output)
        assert f"pip install -e '.[{LACKING[line]}]'" in " ".join(output.split()), (line, output)
