"""The scale `laptop`: all of the paper's studies with a quarter-size network, at a cost that two cores can afford.

The network has a quarter of the paper's kernels and capsule types, and all training images are used. The number of
epochs is the same for all lines of a dataset. `maxmincaps study run all --scale laptop` runs it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from maxmincaps.studies.study import DATASETS, HALF_PRECISION, Budget

LAPTOP = "laptop"
EPOCHS = {"mnist": 6, "fashion-mnist": 8, "rotated-mnist": 20, "background-mnist": 20, "cifar10": 10}
"""Epochs of each dataset, the same in all studies but for Table 2 and the 200 epochs of `gap`."""
NOTE = "a quarter-size network: 64 kernels and 8 capsule types (CIFAR10: 16); all training images, products in bf16"
LARGE_TEST_SETS = ("rotated-mnist", "background-mnist")
"""50,000 test images. Each epoch is evaluated on 10,000 of them, the final network on all."""


def quarter_network(dataset: str) -> dict[str, Any]:
    """Return the settings of a network with a quarter of the paper's kernels and capsule types."""
    return {"conv_channels": 64, "types": 16 if dataset == "cifar10" else 8}


def laptop_budgets(
    seeds: int,
    datasets: Iterable[str] = DATASETS,
    changes: Mapping[str, Any] | None = None,
    *,
    epochs: int | None = None,
    **limits: Any,
) -> tuple[Budget, ...]:
    """Return a budget for each dataset.

    Args:
        seeds: Number of seeds.
        datasets: Datasets in `EPOCHS`.
        changes: Further settings.
        epochs: Epochs. Default: those in `EPOCHS`.
        limits: `lines` or `values` of the budgets. See `Budget`.
    """
    return tuple(
        Budget(
            epochs=epochs or EPOCHS[dataset],
            seeds=seeds,
            test_images=10_000 if dataset in LARGE_TEST_SETS else None,
            changes={**quarter_network(dataset), **HALF_PRECISION, **(changes or {})},
            datasets=(dataset,),
            **limits,
        )
        for dataset in datasets
    )
