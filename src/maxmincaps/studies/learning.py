"""Ours: Softmax and Max-Min side by side, epoch by epoch, each at its own best setting.

Claim    Max-Min learns as fast as Softmax and ends higher: the paper's comparison with little data and little time.
Runs     MNIST, 10,000 training images, 8 epochs, no augmentation, 3 seeds; each normalization with the rates of
         PrimaryCaps and W that were best for it in `rates`, on held-out images.
Measure  accuracy on all 10,000 test images after each epoch, mean over the seeds.
Cost     about 13 minutes a run on one core, 80 in all.
Command  maxmincaps study run learning
"""

from maxmincaps.studies.study import Budget, Line, Study

OWN_BEST = {
    "softmax": {"primary_rate": 1.0, "vote_rate": 3.0},
    "max-min": {"primary_rate": 0.3, "vote_rate": 2.5},
}
"""What `rates` found. The test set was not asked."""

LEARNING = Study(
    name="learning",
    title="Learning curves",
    claim="Max-Min learns as fast as Softmax and ends higher, each at its own best setting.",
    about=__doc__,
    datasets=("mnist",),
    lines=(
        Line("Softmax", {"normalization": "softmax", **OWN_BEST["softmax"]}),
        Line("Max-Min", {"normalization": "max-min", **OWN_BEST["max-min"]}),
    ),
    scales={"small": (Budget(epochs=8, seeds=3, train_images=10_000),)},
    notes={"small": "not in the paper; 10,000 of 60,000 training images, 8 epochs"},
)
