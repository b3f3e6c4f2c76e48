"""Layer-wise rates: a slow W, and what goes with it.

Claim    none of the paper's. `rates` measures what learns most in one epoch. This study measures what ends highest: W
         from small initial values and at a small rate (`slow`), with the margins of the MNIST record recipe, and in
         batches of 64.
Runs     MNIST with Max-Min, 30,000 training images, 8 epochs, 3 seeds, the large products in bf16, a network of a
         quarter of the paper's kernels and capsules. Each line adds a setting to the one before it.
Measure  accuracy on the validation set, the last 20,000 training images. The test set chooses nothing.
Cost     about five minutes a run on one core, an hour in all.
Command  maxmincaps study run research/layer_wise_rates.py --out research/runs
"""

from maxmincaps.studies.study import HALF_PRECISION, Budget, Line, Study

SLOW = {"layer_rates": "slow"}
RELAXED = {**SLOW, "margin_high": 0.8, "margin_low": 0.2}
THOROUGH = {**RELAXED, "batch_size": 64}
"""The settings of the recipe `thorough`."""
QUARTER = {"conv_channels": 64, "types": 8}
"""A quarter of the paper's kernels and capsules: four times as fast, so that many runs can be compared."""

STUDY = Study(
    name="layer-wise-rates",
    title="Layer-wise rates",
    claim="What ends highest when W learns slowly.",
    datasets=("mnist",),
    lines=(
        Line("default", {}),
        Line("slow", SLOW),
        Line("slow, relaxed margins", RELAXED),
        Line("slow, relaxed margins, batch 64", THOROUGH),
    ),
    settings={"relu": True},
    scales={
        "quarter": (
            Budget(epochs=8, seeds=3, train_images=30_000, changes={"validation": 20_000, **QUARTER, **HALF_PRECISION}),
        )
    },
    notes={"quarter": "a quarter-size network, 30,000 training images, 8 epochs, 20,000 validation images"},
)
