"""Ours: a slow W, and what goes with it.

Claim    none of the paper's. `rates` asked what learns most in one epoch. This asks what ends highest: W from nearly
         nothing and slowly (`pace`), with the margins of the paper's MNIST record, and in batches of 64.
Runs     MNIST with Max-Min, 30,000 training images, 8 epochs, 3 seeds, the large products in bf16, a network of a
         quarter of the paper's kernels and capsules. Each line adds a setting to the one before it.
Measure  accuracy on the last 20,000 training images, which are held out. The test set chooses nothing.
Cost     about five minutes a run on one core, an hour in all.
Command  maxmincaps study run paces --scale quarter
"""

from maxmincaps.studies.study import HALF_PRECISION, Budget, Line, Study

HELD_OUT = 20_000
SLOW = {"pace": "slow"}
RELAXED = {**SLOW, "margin_high": 0.8, "margin_low": 0.2}
THOROUGH = {**RELAXED, "batch_size": 64}
"""The settings of the recipe `thorough`."""
QUARTER = {"conv_channels": 64, "types": 8}
"""A quarter of the paper's kernels and capsules: four times as fast, so that many runs can be compared."""

PACES_STUDY = Study(
    name="paces",
    title="Paces",
    claim="What ends highest when W learns slowly.",
    about=__doc__,
    datasets=("mnist",),
    lines=(
        Line("default", {}),
        Line("slow", SLOW),
        Line("slow, relaxed margins", RELAXED),
        Line("slow, relaxed margins, batch 64", THOROUGH),
    ),
    scales={
        "quarter": (
            Budget(
                epochs=8, seeds=3, train_images=30_000, changes={"validation": HELD_OUT, **QUARTER, **HALF_PRECISION}
            ),
        )
    },
    notes={
        "quarter": "not in the paper; a network of a quarter of its kernels and capsules, 30,000 training images, "
        f"8 epochs, judged by {HELD_OUT:,} held-out ones"
    },
)
