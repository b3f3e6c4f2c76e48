"""The grids of runs of our own questions, which the paper does not ask. Their descriptions are in descriptions.toml."""

from typing import Any

from maxmincaps.recipe import settings_in
from maxmincaps.studies.laptop import LARGE_TEST_SETS, NOTE, laptop_budgets, quarter_network
from maxmincaps.studies.study import (
    DATASETS,
    HALF_PRECISION,
    MAX_MIN,
    MINUTE,
    PAPER_AND_FULL,
    SOFTMAX,
    UNIFORM,
    WITH_RELU,
    Budget,
    Line,
    described,
)

Variants = dict[str, dict[str, Any]]
"""Settings by the end of a line's label."""
PRIMARY_SCALE = 1 / quarter_network("rotated-mnist")["types"]
"""Sabour's code divides PrimaryCaps by the number of its types. The recipes state it for the paper's network."""


def _lines(variants: Variants, *normalizations: Line) -> tuple[Line, ...]:
    return tuple(
        Line(f"{line.label}, {label}", {**settings, **line.settings})
        for label, settings in variants.items()
        for line in normalizations
    )


def _labels(lines: tuple[Line, ...]) -> tuple[str, ...]:
    return tuple(line.label for line in lines)


ABLATIONS = described(
    "ablations",
    datasets=("mnist",),
    lines=(
        Line("default", {}),
        Line("full backpropagation", {"full_backpropagation": True}),
        Line("reconstruction 20×", {"reconstruction_weight": 0.01}),
        Line("no ReLU", {"relu": False}),
        Line("no squash in PrimaryCaps", {"squash_parts": False}),
        Line("uniform couplings", {"normalization": "uniform"}),
        Line("literal recipe", settings_in("paper")),
    ),
    settings=WITH_RELU,
    scales={
        **PAPER_AND_FULL,
        "small": (Budget(epochs=8, seeds=2, train_images=10_000),),
        "minute": (MINUTE,),
    },
)

AS_WRITTEN = described(
    "as-written",
    datasets=("background-mnist",),
    lines=_lines({"default recipe": {}, "literal recipe": settings_in("paper")}, SOFTMAX, MAX_MIN),
    settings=WITH_RELU,
    scales={
        **PAPER_AND_FULL,
        "small": (Budget(epochs=20, seeds=2, test_images=10_000),),
        "minute": (MINUTE,),
    },
)

_READINGS: Variants = {
    "no squash": {"relu": True, "squash_parts": False},
    "no squash, no ReLU": {"relu": False, "squash_parts": False},
    "as written": {**settings_in("paper"), "primary_scale": PRIMARY_SCALE},
    "as coded": {**settings_in("as-coded"), "primary_scale": PRIMARY_SCALE},
    "reconstruction 20×": {"relu": True, "reconstruction_weight": 0.01},
    "slow layer-wise rates": {"relu": True, "layer_rates": "slow"},
}
_GAINS: Variants = {f"logits × {gain}": {"relu": True, "logit_gain": gain} for gain in (4, 16)}
_NOT_DIVIDED: Variants = {"as coded, PrimaryCaps not divided": {**settings_in("as-coded"), "primary_scale": 1.0}}
_ITERATIONS: Variants = {
    f"no ReLU, {count} iteration{'s' * (count > 1)}": {"relu": False, "iterations": count} for count in (1, 5, 10)
}
_LONG: Variants = {"200 epochs": {"relu": True}, "200 epochs, raw weights": {"relu": True, "ema_decay": 0.0}}

_WHOLE_TABLE = _lines({"ReLU": {"relu": True}, "no ReLU": {"relu": False}}, SOFTMAX, MAX_MIN, UNIFORM)
_ONE_SEED = (
    *_lines(_READINGS, SOFTMAX, MAX_MIN, UNIFORM),
    *_lines(_GAINS, SOFTMAX),
    *_lines(_NOT_DIVIDED, MAX_MIN),
)
_MORE_ITERATIONS = _lines(_ITERATIONS, SOFTMAX, MAX_MIN)
_LONGER = _lines(_LONG, SOFTMAX, MAX_MIN)
GAP = described(
    "gap",
    datasets=DATASETS,
    lines=(*_WHOLE_TABLE, *_ONE_SEED, *_MORE_ITERATIONS, *_LONGER),
    scales={
        "quarter": (
            *laptop_budgets(1, LARGE_TEST_SETS, lines=_labels(_ONE_SEED)),
            *laptop_budgets(5, LARGE_TEST_SETS, lines=_labels(_WHOLE_TABLE)),
            *laptop_budgets(3, LARGE_TEST_SETS, lines=_labels(_MORE_ITERATIONS)),
            *laptop_budgets(5, ("mnist", "fashion-mnist", "cifar10"), lines=_labels(_WHOLE_TABLE)),
            *laptop_budgets(1, ("rotated-mnist",), epochs=200, lines=_labels(_LONGER)),
        )
    },
    notes={"quarter": NOTE},
)

_SIZES: Variants = {
    "rotated-mnist": {"epochs": 10, "validation": 2_000, "test_images": 2_000},
    "cifar10": {"epochs": 10, "validation": 5_000, "train_images": 20_000},
    "mnist": {"epochs": 8, "validation": 10_000, "train_images": 10_000},
}
_WHITEN = {"whiten": True, "reconstruction_weight": 0.0}
_TRIED: Variants = {
    "Sabour's initial values": {"relu": True, "initial_values": "sabour"},
    "slow PrimaryCaps": {"relu": True, "primary_rate": 0.1},
}
_COLOUR: Variants = {"whitened": {"relu": True, **_WHITEN}, "whitened, no ReLU": {"relu": False, **_WHITEN}}

_MAIN = _lines({"ReLU": {"relu": True}, "no ReLU": {"relu": False}}, MAX_MIN, SOFTMAX, UNIFORM)
_OTHERS = _lines(_TRIED, MAX_MIN, SOFTMAX)
_CIFAR10 = _lines(_COLOUR, MAX_MIN, SOFTMAX)


def _screening(lines: tuple[Line, ...], seeds: int, *datasets: str) -> tuple[Budget, ...]:
    return tuple(
        Budget(
            epochs=_SIZES[name]["epochs"],
            seeds=seeds,
            changes={**_SIZES[name], **quarter_network(name), **HALF_PRECISION},
            datasets=(name,),
            lines=_labels(lines),
        )
        for name in datasets
    )


INACTIVE = described(
    "inactive",
    datasets=tuple(_SIZES),
    lines=(*_MAIN, *_OTHERS, *_CIFAR10),
    scales={
        "quarter": (
            *_screening(_MAIN, 3, *_SIZES),
            *_screening(_OTHERS, 1, *_SIZES),
            *_screening(_CIFAR10, 1, "cifar10"),
        )
    },
    notes={"quarter": "a quarter-size network, part of the images, evaluated on a validation set"},
)

LEAKY_SOFTMAX = Line("Leaky Softmax", {"normalization": "leaky-softmax"})
_PAIRS: dict[str, Any] = {"epochs": 3, "train_images": 20_000}
_CHOSEN_BY = {"validation": 2_000}
OVERLAP = described(
    "overlap",
    datasets=("mnist",),
    lines=(
        *(
            Line(line.label, {**line.settings, "iterations": count}, count)
            for count in (3, 5)
            for line in (SOFTMAX, MAX_MIN, LEAKY_SOFTMAX)
        ),
        Line(UNIFORM.label, {**UNIFORM.settings, "iterations": 1}, 1),
    ),
    settings={"overlap": True, "relu": False},
    files=("separation.safetensors",),
    scales={
        "full": (Budget(**_PAIRS, changes=_CHOSEN_BY, lines=(SOFTMAX.label, MAX_MIN.label), values=(3,)),),
        "quarter": (Budget(**_PAIRS, seeds=3, changes={**_CHOSEN_BY, **quarter_network("mnist")}),),
    },
    notes={
        "full": "60,000 training pairs",
        "quarter": "60,000 training pairs; a quarter-size network: 64 kernels and 8 capsule types",
    },
)
