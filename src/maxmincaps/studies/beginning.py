"""Ours: the first hundred steps.

Claim    none of the paper's, which calls Max-Min robust for bounds from 0.01 to 1.0 and does not say why. This shows
         what the settings that papers leave open do to sums, lengths, gradients and couplings as learning starts.
Runs     mnist-5k, batches of 40, one epoch: 100 steps. Softmax and Max-Min by default, and with one setting changed:
         W's initial sigma and learning rate, PrimaryCaps' learning rate, the warm-up, the initial values, ReLU and
         squash in PrimaryCaps, the paper taken literally; for Max-Min also q and the start value, with W as it is.
Measure  each step's mean length of parts, sums and classes, quantiles of the couplings, root mean square of each
         layer's gradient (`steps.jsonl` in the record).
Cost     about two minutes a run on one core, an hour in all.
Command  maxmincaps study run beginning
"""

from collections.abc import Mapping
from typing import Any

from maxmincaps.recipe import settings_in
from maxmincaps.studies.study import NAMES, Budget, Line, Study

STEPS = 100
BY_RULE: Mapping[str, tuple[float, float]] = {"softmax": (0.08443, 10.0), "max-min": (0.02024, 2.5136)}
"""W's sigma and rate that the defaults give the paper's MNIST network; four times and a quarter of them are tried."""
DEFAULT = "default"


def factors(normalization: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Name what is changed, for each the values that are tried, and for each the settings."""
    sigma, rate = BY_RULE[normalization]
    found: dict[str, dict[str, dict[str, Any]]] = {
        "σ of W": {"¼": {"vote_sigma": sigma / 4}, "4": {"vote_sigma": sigma * 4}},
        "rate of W": {"¼": {"vote_rate": rate / 4}, "4": {"vote_rate": rate * 4}},
        "PrimaryCaps rate": {f"{rate:g}": {"primary_rate": rate} for rate in (0.01, 0.3, 1.0)},
        "warm-up": {"none": {"warmup": 0}},
        "PrimaryCaps": {"no ReLU": {"relu": False}, "no squash": {"squash_parts": False}},
        "initial values": {"Sabour's": {"initial_values": "sabour"}, "literal": settings_in("paper")},
    }
    if normalization == "max-min":
        # With W as it is for q = 1: the rule would undo what is looked at.
        fixed = {"vote_sigma": sigma, "vote_rate": rate}
        found["bound q"] = {f"{value:g}": {"high": value, **fixed} for value in (0.1, 0.01)}
        found["start"] = {f"{value:g}": {"start": value, **fixed} for value in (0.1, 0.01)}
    return found


FACTORS = tuple(factors("max-min"))


def label(normalization: str, factor: str = "", value: str = DEFAULT) -> str:
    """Name a line of the study."""
    return ", ".join(filter(None, (NAMES[normalization], f"{factor} {value}".strip())))


BEGINNING = Study(
    name="beginning",
    title="The first hundred steps",
    claim="What the settings that papers leave open do while a network starts to learn.",
    about=__doc__,
    datasets=("mnist-5k",),
    lines=(
        *(Line(label(name), {"normalization": name}) for name in NAMES),
        *(
            Line(label(name, factor, value), {"normalization": name, **settings})
            for name in NAMES
            for factor, values in factors(name).items()
            for value, settings in values.items()
        ),
    ),
    settings={"batch_size": 4_000 // STEPS, "watch": STEPS, "average": 0.0},
    scales={"small": (Budget(epochs=1),)},
    notes={"small": "not in the paper; 4,000 digits, one epoch of 100 steps"},
)
