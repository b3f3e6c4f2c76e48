"""What is not finite stops a run with its last good weights, or is left out and counted."""

import math

import pytest

from maxmincaps import NORMALIZATIONS, Normalization, fit
from maxmincaps.errors import DivergedError, InputError
from maxmincaps.training.run import Run
from tests.training.bits import weights_of


@pytest.fixture
def exploding(request):
    """A normalization whose couplings become infinite at some of its calls, by default the fifth."""
    times, calls = getattr(request, "param", [5]), []

    def explode(logits):
        calls.extend([1] * (logits.ndim == 3))  # in routing, not when the layer computes its typical couplings
        return logits * (math.inf if logits.ndim == 3 and len(calls) in times else 1)

    NORMALIZATIONS["exploding"] = Normalization(explode)
    yield "exploding"
    del NORMALIZATIONS["exploding"]


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_weights(exploding, tiny, tmp_path):
    with pytest.raises(DivergedError, match=r"not finite at epoch 1, step 3 .*last good weights are in"):
        fit(tiny(normalization=exploding), tmp_path / "run")
    assert all(tensor.isfinite().all() for tensor in weights_of(Run(tmp_path / "run")).values())
    assert not Run(tmp_path / "run").complete


def test_a_run_that_diverged_says_where_and_is_tried_again_only_when_asked(exploding, tiny, tmp_path):
    with pytest.raises(DivergedError):
        fit(tiny(normalization=exploding), tmp_path / "run")
    with pytest.raises(InputError, match=r"run: the run diverged \(.* not finite at epoch 1, step 3 \(loss nan\)\)"):
        fit(tiny(normalization=exploding), tmp_path / "run")
    assert Run(tmp_path / "run").diverged
    assert not fit(tiny(normalization=exploding), tmp_path / "run", resume=True).diverged


def test_a_step_that_is_not_finite_can_be_skipped_and_is_counted(exploding, tiny, tmp_path):
    run = fit(tiny(normalization=exploding, non_finite="skip"), tmp_path / "run")
    assert run.result.skipped_steps == 1
    assert all(tensor.isfinite().all() for tensor in weights_of(run).values())


@pytest.mark.parametrize("exploding", [range(1000)], indirect=True)
def test_an_epoch_of_nothing_but_skipped_steps_ends_the_run_as_diverged(exploding, tiny, tmp_path):
    with pytest.raises(DivergedError, match=r"no step of epoch 1 had a finite loss.*last good weights are in"):
        fit(tiny(normalization=exploding, non_finite="skip"), tmp_path / "run")
    run = Run(tmp_path / "run")
    assert run.diverged
    assert not run.history, "an epoch without a finite step has no loss"
