"""The examples run as they are; `serve_onnx.py` is tested with the exports."""

import runpy
import sys
from types import SimpleNamespace

import pytest

from maxmincaps import NORMALIZATIONS
from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("look_inside", "iteration 3"),
        ("train", "epoch 2"),
        ("own_normalization", "sigmoid"),
        ("plain_loop", "test accuracy"),
        ("fabric_loop", "epoch 2"),
        ("backbone_head", "cross-entropy: test accuracy"),
        ("stack", "step 60"),
        ("fine_tune", "epoch 3"),
        ("scikit_learn", "softmax: "),
    ],
)
def test_an_example_runs(name, expected, capsys):
    before = dict(NORMALIZATIONS)
    try:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    finally:
        NORMALIZATIONS.clear()
        NORMALIZATIONS.update(before)
    assert expected in capsys.readouterr().out


def test_the_observer_for_weights_and_biases_logs_every_step_and_epoch(monkeypatch, capsys):
    """With a stand-in for the library, which needs an account."""
    logged, finished = [], []
    log = SimpleNamespace(log=lambda values, step: logged.append((step, values)), finish=lambda: finished.append(True))
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **settings: log))
    runpy.run_path(str(EXAMPLES / "wandb_observer.py"), run_name="__main__")
    assert [step for step, values in logged if "step/loss" in values] == list(range(1, 11))
    assert [values["epoch/epoch"] for step, values in logged if "step/loss" not in values] == [1, 2]
    assert finished
    assert "test accuracy after epoch 2" in capsys.readouterr().out
