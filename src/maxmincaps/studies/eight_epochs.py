"""Ours: all of MNIST in eight epochs, and in fifteen.

Claim    none of the paper's, whose MNIST record took 500 epochs: how far eight take the default recipe and `thorough`.
Runs     MNIST, all 60,000 training images, no augmentation, Max-Min, the large products in bf16. With the default
         recipe and with the slowest setting of `by-heart`, one seed each; with `thorough`, which held-out images chose
         (`paces`), 3 seeds, and one of them for 15 epochs. The slow setting of `by-heart` was added when the default's
         test accuracy was known, and `thorough` was looked for when both were.
Measure  accuracy on all 10,000 test images after each epoch, the best one's and the last one's.
Cost     half an hour a run on one core with bf16, an hour for 15 epochs.
Command  maxmincaps study run eight-epochs
"""

from maxmincaps.studies.by_heart import SABOURS_SLOW, SABOURS_SLOW_LABEL
from maxmincaps.studies.paces import THOROUGH
from maxmincaps.studies.study import HALF_PRECISION, MAX_MIN, Budget, Line, Study

BY_THOROUGH = {**MAX_MIN.settings, **THOROUGH}
LONGER = Line("Thorough, 15 epochs", BY_THOROUGH)
THREE_TIMES = Line("Thorough", BY_THOROUGH)

EIGHT_EPOCHS = Study(
    name="eight-epochs",
    title="Eight epochs",
    claim="How far eight epochs take the default recipe and `thorough` on all of MNIST.",
    about=__doc__,
    datasets=("mnist",),
    lines=(MAX_MIN, Line(SABOURS_SLOW_LABEL, {**MAX_MIN.settings, **SABOURS_SLOW}), THREE_TIMES, LONGER),
    scales={
        "small": (
            Budget(epochs=8, seeds=3, changes=HALF_PRECISION, lines=(THREE_TIMES.label,)),
            Budget(epochs=15, changes=HALF_PRECISION, lines=(LONGER.label,)),
            Budget(epochs=8, changes=HALF_PRECISION),
        )
    },
    notes={"small": "not in the paper; all training images, 8 or 15 epochs, large products in bf16"},
)
