"""All of MNIST in eight epochs, and in fifteen.

Claim    none of the paper's, whose MNIST record took 500 epochs: how far eight epochs take the default recipe and the
         recipe `thorough`.
Runs     MNIST, all 60,000 training images, no augmentation, Max-Min, the large products in bf16, 3 seeds: the default
         recipe, the slowest setting of `memorised`, and `thorough`, of which one seed has 15 epochs. The slow setting
         was added after the default's test accuracy was known. `thorough` was searched for after both were known, and
         chosen on validation images, in trials that `layer_wise_rates` repeats.
Measure  accuracy on all 10,000 test images after each epoch: the best and the final one.
Cost     half an hour a run on one core with bf16; `thorough` three quarters; an hour and a half for 15 epochs.
Command  maxmincaps study run research/eight_epochs.py --out research/runs
"""

from maxmincaps.recipe import settings_in
from maxmincaps.studies.study import HALF_PRECISION, MAX_MIN, Budget, Line, Study

SLOW_W = {"initial_values": "sabour", "primary_rate": 1.0, "vote_sigma": 0.001, "vote_rate": 0.1}
THOROUGH = {**MAX_MIN.settings, **settings_in("thorough")}
LONGER = Line("Thorough, 15 epochs", THOROUGH)

STUDY = Study(
    name="eight-epochs",
    title="Eight epochs",
    claim="How far eight epochs take the default recipe and `thorough` on all of MNIST.",
    datasets=("mnist",),
    lines=(
        MAX_MIN,
        Line("Sabour's values, a slow W", {**MAX_MIN.settings, **SLOW_W}),
        Line("Thorough", THOROUGH),
        LONGER,
    ),
    settings={"relu": True},
    scales={
        "small": (
            Budget(epochs=15, changes=HALF_PRECISION, lines=(LONGER.label,)),
            Budget(epochs=8, seeds=3, changes=HALF_PRECISION),
        )
    },
    notes={"small": "all training images, 8 or 15 epochs, large products in bf16"},
)
