"""Ours: all of MNIST in eight epochs.

Claim    none of the paper's, which states no epochs and whose MNIST record took 500. What do settings that a first
         epoch does not tell apart (`rates`) come to when there is more data and more time?
Runs     MNIST with Max-Min, 55,000 training images, 8 epochs, no augmentation, the large products in bf16: the
         default; PrimaryCaps and W slow, with Sabour's initial values; a cosine instead of the slow decay; the
         reconstruction loss weighed 20 times as much, as in Sabour's code.
Measure  accuracy on the last 5,000 training images, which are held out: the best epoch's and the last one's.
Cost     half an hour a run on one core with bf16.
Command  maxmincaps study run eight-epochs
"""

from maxmincaps.studies.study import HALF_PRECISION, Budget, Line, Study

SLOW = {
    "initial_values": "sabour",
    "primary_scale": 1 / 32,
    "primary_rate": 1.0,
    "vote_sigma": 0.001,
    "vote_rate": 0.1,
}
"""A ninth of the default's speed in PrimaryCaps, a twenty-fifth in W."""

EIGHT_EPOCHS = Study(
    name="eight-epochs",
    title="Eight epochs",
    claim="What settings that are level after one epoch come to with more data and more time.",
    about=__doc__,
    datasets=("mnist",),
    lines=(
        Line("default", {}),
        Line("slow", SLOW),
        Line("cosine", {"schedule": "cosine"}),
        Line("reconstruction 20×", {"reconstruction_weight": 0.01}),
    ),
    scales={"small": (Budget(epochs=8, changes={"validation": 5_000, **HALF_PRECISION}),)},
    notes={"small": "not in the paper; 55,000 training images, 8 epochs, judged by 5,000 held-out training images"},
)
