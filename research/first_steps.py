"""The first hundred steps of training.

Claim    none of the paper's, which calls Max-Min robust for bounds from 0.01 to 1.0 and gives no reason. This study
         shows what settings that papers leave open do to sums, lengths, gradients and routing coefficients as
         training starts.
Runs     mnist-5k, batches of 40, one epoch: 100 steps. Softmax and Max-Min by default, and with one setting changed:
         W's initial sigma and learning rate, PrimaryCaps' learning rate, the warm-up, the initial values, ReLU and
         squash in PrimaryCaps, the recipe `paper`; for Max-Min also q and the start value, with W's sigma and rate
         fixed at their q = 1 values.
Measure  for each step the mean length of lower-level capsules, sums and class capsules, quantiles of the routing
         coefficients, and the root mean square of each layer's gradient (`steps.jsonl` in the run folder).
Cost     about two minutes a run on one core, an hour in all.
Command  maxmincaps study run research/first_steps.py --out research/runs
         With steps.jsonl: python research/watch.py research/runs/first-steps
"""

from collections.abc import Mapping
from typing import Any

from maxmincaps.recipe import settings_in
from maxmincaps.studies.study import NAMES, Budget, Line, Study

STEPS = 100
DEFAULT_W: Mapping[str, tuple[float, float]] = {"softmax": (0.08443, 10.0), "max-min": (0.02024, 2.5136)}
"""W's sigma and rate that the defaults give the paper's MNIST network. Four times and a quarter of them are tried."""


def changes(normalization: str) -> dict[str, dict[str, Any]]:
    """Return the settings of each line beside the default, by its label."""
    sigma, rate = DEFAULT_W[normalization]
    found: dict[str, dict[str, Any]] = {
        "σ of W ¼": {"vote_sigma": sigma / 4},
        "σ of W 4": {"vote_sigma": sigma * 4},
        "rate of W ¼": {"vote_rate": rate / 4},
        "rate of W 4": {"vote_rate": rate * 4},
        **{f"PrimaryCaps rate {value:g}": {"primary_rate": value} for value in (0.01, 0.3, 1.0)},
        "warm-up none": {"warmup": 0},
        "PrimaryCaps no ReLU": {"relu": False},
        "PrimaryCaps no squash": {"squash_parts": False},
        "initial values Sabour's": {"initial_values": "sabour"},
        "initial values literal": settings_in("paper"),
    }
    if normalization == "max-min":
        # W's sigma and rate stay fixed: the default rule would compensate for q and the start value.
        fixed = {"vote_sigma": sigma, "vote_rate": rate}
        found |= {f"bound q {value:g}": {"high": value, **fixed} for value in (0.1, 0.01)}
        found |= {f"start {value:g}": {"start": value, **fixed} for value in (0.1, 0.01)}
    return found


STUDY = Study(
    name="first-steps",
    title="The first hundred steps",
    claim="What settings that papers leave open do while a network starts to learn.",
    datasets=("mnist-5k",),
    lines=(
        *(Line(f"{label}, default", {"normalization": name}) for name, label in NAMES.items()),
        *(
            Line(f"{label}, {change}", {"normalization": name, **settings})
            for name, label in NAMES.items()
            for change, settings in changes(name).items()
        ),
    ),
    settings={"relu": True, "batch_size": 4_000 // STEPS, "ema_decay": 0.0},
    scales={"small": (Budget(epochs=1),)},
    notes={"small": "4,000 digits, one epoch of 100 steps"},
)
