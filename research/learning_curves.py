"""Softmax and Max-Min epoch by epoch, each at its own best learning rates.

Claim    none of the paper's, but its question with little data and little time: does Max-Min learn as fast as Softmax,
         and does it end higher?
Runs     MNIST, 10,000 training images, 8 epochs, no augmentation, 3 seeds. The rates of PrimaryCaps and W are the best
         of the twelve settings of `rates`, chosen on validation images: for Softmax the full rate of PrimaryCaps, for
         Max-Min a W that learns three times as fast as the default's.
Measure  accuracy on all 10,000 test images after each epoch, mean over the seeds.
Cost     about 13 minutes a run on one core, 80 in all.
Command  maxmincaps study run research/learning_curves.py --out research/runs
"""

from maxmincaps.studies.study import Budget, Line, Study

STUDY = Study(
    name="learning-curves",
    title="Learning curves",
    claim="Whether Max-Min learns as fast as Softmax and ends higher, each at its own best rates.",
    datasets=("mnist",),
    lines=(
        Line("Softmax", {"normalization": "softmax", "primary_rate": 1.0}),
        Line("Max-Min", {"normalization": "max-min", "primary_rate": 0.3, "vote_rate": 7.5}),
    ),
    settings={"relu": True, "ema_decay": 0.0},
    scales={"small": (Budget(epochs=8, seeds=3, train_images=10_000),)},
    notes={"small": "10,000 of 60,000 training images, 8 epochs"},
)
