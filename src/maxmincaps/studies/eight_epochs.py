"""Ours: all of MNIST in eight epochs.

Claim    none of the paper's, whose MNIST record took 500 epochs: how far the default recipe comes in eight.
Runs     MNIST, all 60,000 training images, no augmentation, Max-Min, the large products in bf16, 3 seeds: with the
         default recipe, which held-out images chose (`rates`, `options`), and with the slowest setting of `by-heart`,
         which in a first sketch had ended high. The latter was added when the default's test accuracy was known.
Measure  accuracy on all 10,000 test images after each epoch, the best one's and the last one's.
Cost     half an hour a run on one core with bf16.
Command  maxmincaps study run eight-epochs
"""

from maxmincaps.studies.by_heart import SLOW, SLOW_LABEL
from maxmincaps.studies.study import HALF_PRECISION, MAX_MIN, Budget, Line, Study

EIGHT_EPOCHS = Study(
    name="eight-epochs",
    title="Eight epochs",
    claim="How far the default recipe comes on all of MNIST in eight epochs.",
    about=__doc__,
    datasets=("mnist",),
    lines=(MAX_MIN, Line(SLOW_LABEL, {**MAX_MIN.settings, **SLOW})),
    scales={"small": (Budget(epochs=8, seeds=3, changes=HALF_PRECISION),)},
    notes={"small": "not in the paper; all training images, 8 epochs, large products in bf16"},
)
