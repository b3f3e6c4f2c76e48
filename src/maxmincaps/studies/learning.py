"""Ours: Softmax and Max-Min side by side, epoch by epoch.

Claim    Max-Min learns as fast as Softmax and ends higher: the paper's comparison with little data and little time.
Runs     MNIST, 10,000 training images, 8 epochs, no augmentation, 3 seeds: those of Table 4 at the scale `small`. Both
         have the learning rates of the recipe's rule, which is among the best settings of both in `rates`.
Measure  accuracy on all 10,000 test images after each epoch, mean over the seeds.
Cost     about 13 minutes a run on one core, 80 in all.
Command  maxmincaps study run learning
"""

from maxmincaps.studies.study import Study
from maxmincaps.studies.table_4_normalizations import NORMALIZATIONS_STUDY

LEARNING = Study(
    name="learning",
    title="Learning curves",
    claim="Max-Min learns as fast as Softmax and ends higher.",
    about=__doc__,
    borrows=NORMALIZATIONS_STUDY,
    borrowed={"line": ("Softmax", "Max-Min")},
)
