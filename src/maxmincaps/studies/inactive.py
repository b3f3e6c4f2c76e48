"""Inactive capsules (not in the paper): what keeps lower-level capsules alive, and is it better?

Claim    none of the paper's. Under ReLU 83 to 93 % of the lower-level capsules are inactive with Max-Min: their output
         is zero for an image, they take no part in routing, and no gradient reaches them. The paper's text has a ReLU
         in PrimaryCaps; the code that it was adapted from has none.
Runs     a quarter-size network on MNIST (10,000 images), rotated MNIST and CIFAR10 (20,000 images), products in bf16.
         Softmax, Max-Min and uniform coefficients with and without ReLU, 3 seeds; Softmax and Max-Min with Sabour's
         initial values (biases 0.1) and with a tenth of the learning rate of PrimaryCaps, 1 seed; on CIFAR10 also
         with whitened images and no reconstruction, with and without ReLU, 1 seed.
Measure  accuracy on the validation set, and the fraction of inactive capsules by epoch (history.jsonl,
         `dead_children`). The test set chooses nothing.
Rule     a setting that keeps capsules active and has the higher validation accuracy on all three datasets becomes the
         default of the recipes. `as-written` keeps the paper's words.
Cost     70 runs of 6 to 15 minutes on one core.
Command  maxmincaps study run inactive
"""

from typing import Any

from maxmincaps.studies.laptop import quarter_network
from maxmincaps.studies.study import HALF_PRECISION, MAX_MIN, SOFTMAX, UNIFORM, Budget, Line, Study

_SIZES: dict[str, dict[str, Any]] = {
    "rotated-mnist": {"epochs": 10, "validation": 2_000, "test_images": 2_000},
    "cifar10": {"epochs": 10, "validation": 5_000, "train_images": 20_000},
    "mnist": {"epochs": 8, "validation": 10_000, "train_images": 10_000},
}
_WHITEN = {"whiten": True, "reconstruction_weight": 0.0}
_SCREENED: dict[str, dict[str, Any]] = {"ReLU": {"relu": True}, "no ReLU": {"relu": False}}
_TRIED: dict[str, dict[str, Any]] = {
    "Sabour's initial values": {"relu": True, "initial_values": "sabour"},
    "slow PrimaryCaps": {"relu": True, "primary_rate": 0.1},
}
_COLOUR: dict[str, dict[str, Any]] = {
    "whitened": {"relu": True, **_WHITEN},
    "whitened, no ReLU": {"relu": False, **_WHITEN},
}


def _lines(settings: dict[str, dict[str, Any]], *normalizations: Line) -> tuple[Line, ...]:
    return tuple(
        Line(f"{line.label}, {label}", {**line.settings, **own})
        for label, own in settings.items()
        for line in normalizations
    )


def _budgets(lines: tuple[Line, ...], seeds: int, *datasets: str) -> tuple[Budget, ...]:
    labels = tuple(line.label for line in lines)
    return tuple(
        Budget(
            epochs=_SIZES[name]["epochs"],
            seeds=seeds,
            train_images=_SIZES[name].get("train_images"),
            test_images=_SIZES[name].get("test_images"),
            changes={"validation": _SIZES[name]["validation"], **quarter_network(name), **HALF_PRECISION},
            datasets=(name,),
            lines=labels,
        )
        for name in datasets
    )


_MAIN = _lines(_SCREENED, MAX_MIN, SOFTMAX, UNIFORM)
_OTHERS = _lines(_TRIED, MAX_MIN, SOFTMAX)
_CIFAR10 = _lines(_COLOUR, MAX_MIN, SOFTMAX)

INACTIVE = Study(
    name="inactive",
    title="Inactive capsules",
    claim="What keeps lower-level capsules active, and whether accuracy gains by it.",
    about=__doc__,
    datasets=tuple(_SIZES),
    lines=(*_MAIN, *_OTHERS, *_CIFAR10),
    scales={
        "quarter": (
            *_budgets(_MAIN, 3, *_SIZES),
            *_budgets(_OTHERS, 1, *_SIZES),
            *_budgets(_CIFAR10, 1, "cifar10"),
        )
    },
    notes={"quarter": "not in the paper; a quarter-size network, part of the images, evaluated on a validation set"},
)
