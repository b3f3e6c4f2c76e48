"""Ours: all of MNIST in eight epochs, and in fifteen.

Claim    none of the paper's, whose MNIST record took 500 epochs: how far eight take the default recipe and `thorough`.
Runs     MNIST, all 60,000 training images, no augmentation, Max-Min, the large products in bf16, 3 seeds: with
         the default recipe, with the slowest setting of `by-heart`, and with `thorough`, of which one seed has 15
         epochs. The slow setting of `by-heart` was added when the default's test accuracy was known. `thorough` was
         looked for when both were, and chosen by held-out images, in trials that `paces` repeats.
Measure  accuracy on all 10,000 test images after each epoch, the best one's and the last one's.
Cost     half an hour a run on one core with bf16, with `thorough` three quarters, and an hour and a half for 15 epochs.
Command  maxmincaps study run eight-epochs
"""

from maxmincaps.studies.by_heart import SABOURS_SLOW, SABOURS_SLOW_LABEL
from maxmincaps.studies.paces import THOROUGH
from maxmincaps.studies.study import HALF_PRECISION, MAX_MIN, Budget, Line, Study

BY_THOROUGH = {**MAX_MIN.settings, **THOROUGH}
LONGER = Line("Thorough, 15 epochs", BY_THOROUGH)

EIGHT_EPOCHS = Study(
    name="eight-epochs",
    title="Eight epochs",
    claim="How far eight epochs take the default recipe and `thorough` on all of MNIST.",
    about=__doc__,
    datasets=("mnist",),
    lines=(
        MAX_MIN,
        Line(SABOURS_SLOW_LABEL, {**MAX_MIN.settings, **SABOURS_SLOW}),
        Line("Thorough", BY_THOROUGH),
        LONGER,
    ),
    scales={
        "small": (
            Budget(epochs=15, changes=HALF_PRECISION, lines=(LONGER.label,)),
            Budget(epochs=8, seeds=3, changes=HALF_PRECISION),
        )
    },
    notes={"small": "not in the paper; all training images, 8 or 15 epochs, large products in bf16"},
)
