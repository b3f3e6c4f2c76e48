"""The wheel: its files, its requirements and, on request, that it works without a checkout."""

import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser

import pytest

from tests.package.conftest import ROOT, opt_in


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as files:
        name = next(name for name in files.namelist() if name.endswith("METADATA"))
        return Parser().parsestr(files.read(name).decode())


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as files:
        inside = {name for name in files.namelist() if name.startswith("maxmincaps/")}
        others = {name.partition("/")[0] for name in files.namelist()} - {"maxmincaps"}
    source = ROOT / "src"
    ours = {
        path.relative_to(source).as_posix()
        for path in (source / "maxmincaps").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == ours
    assert {"maxmincaps/py.typed", "maxmincaps/export/card.md.jinja", "maxmincaps/report/page.html.jinja"} <= inside
    assert all(name.endswith(".dist-info") for name in others)


def test_the_wheel_says_what_it_is(metadata):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["Version"] == project["version"]
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    asked = {"data", "report", "cluster", "app", "export", "all", "dev"}
    assert asked <= set(metadata.get_all("Provides-Extra"))


def test_every_named_part_of_the_package_is_an_extra(metadata):
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    named = {word.split('"')[1] for text in sources for word in text.split("import_extra(")[1:] if word.startswith('"')}
    assert named <= set(metadata.get_all("Provides-Extra"))


def test_the_package_answers_before_torch_and_optional_parts_are_loaded():
    heavy = ("torch", "sklearn", "onnx", "matplotlib", "gradio", "huggingface_hub", "pandas", "numpy")
    script = (
        "import sys, contextlib, io\nfrom maxmincaps.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n    main(['--help'])\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


@opt_in
def test_the_wheel_trains_and_exports_in_a_clean_environment(wheel, clean):
    clean.install(f"{wheel}[data]")
    clean.call("maxmincaps", "train", "--out", "run", *["--epochs", "1", "--train-images", "100", "--batch-size", "50"])
    output = clean.call("maxmincaps", "export", "run", "--out", "net.onnx", code=2)
    assert "pip install -e '.[export]'" in output
    clean.install(f"{wheel}[export]")
    clean.call("maxmincaps", "export", "run", "--out", "net.onnx")
    clean.call("maxmincaps", "export", "run", "--to", "hub", "--out", "hub")
    same = (
        "import torch\nfrom maxmincaps import CapsNet, load_network\nimages = torch.rand(3, 1, 28, 28)\n"
        "ours, theirs = (each(images).lengths for each in (load_network('run'), CapsNet.from_pretrained('hub')))\n"
        "print(torch.equal(ours, theirs))"
    )
    assert clean.call("python", "-c", same).strip() == "True"
