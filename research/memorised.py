"""What helps after the training set is fitted.

Claim    none of the paper's. `rates` and `options` measure what learns fast. This study measures what generalises best
         when training accuracy is near 100 %.
Runs     MNIST with Max-Min, 10,000 training images, 8 epochs, the default recipe with one setting changed: the
         reconstruction loss weighted 20 times as much, as in Sabour's code; a cosine instead of the slow decay. One
         line changes four: Sabour's initial values of convolutions and decoder, the common rate for PrimaryCaps, and
         for W a twentieth of the default's sigma and a twenty-fifth of its rate.
Measure  accuracy on the validation set, the last 20,000 training images: many, as the differences are small.
Cost     about ten minutes a run on one core with bf16, forty in all.
Command  maxmincaps study run research/memorised.py --out research/runs
"""

from maxmincaps.studies.study import HALF_PRECISION, Budget, Line, Study

SLOW_W = {"initial_values": "sabour", "primary_rate": 1.0, "vote_sigma": 0.001, "vote_rate": 0.1}

STUDY = Study(
    name="memorised",
    title="After the training set is fitted",
    claim="What generalises best when training accuracy is near 100 %.",
    datasets=("mnist",),
    lines=(
        Line("default", {}),
        Line("reconstruction 20×", {"reconstruction_weight": 0.01}),
        Line("cosine", {"schedule": "cosine"}),
        Line("Sabour's values, a slow W", SLOW_W),
    ),
    settings={"relu": True},
    scales={"small": (Budget(epochs=8, train_images=10_000, changes={"validation": 20_000, **HALF_PRECISION}),)},
    notes={"small": "10,000 training images, 8 epochs, 20,000 validation images"},
)
