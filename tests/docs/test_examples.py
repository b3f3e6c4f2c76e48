"""The examples run as they are. (`serve_onnx.py` is tested with the exports.)"""

import runpy

import pytest

from maxmincaps import NORMALIZATIONS
from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize(
    ("name", "said"),
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
def test_an_example_runs(name, said, capsys):
    before = dict(NORMALIZATIONS)
    try:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    finally:
        NORMALIZATIONS.clear()
        NORMALIZATIONS.update(before)
    assert said in capsys.readouterr().out
