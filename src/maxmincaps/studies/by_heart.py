"""Ours: what helps once the training images are learnt by heart.

Claim    none of the paper's. `rates` and `options` tell what makes a network learn fast; this tells what it generalises
         by at the end of a training in which hardly a training image is still wrong.
Runs     MNIST with Max-Min, 10,000 training images, 8 epochs, the default recipe with one setting changed: the
         reconstruction loss weighed 20 times as much, as in Sabour's code; a cosine instead of the slow decay. In one
         line four are changed: Sabour's initial values of convolutions and decoder, the common rate for PrimaryCaps,
         and for W a twentieth of the default's sigma and a twenty-fifth of its rate.
Measure  accuracy on the last 20,000 training images, which are held out: many, as the differences are small.
Cost     about ten minutes a run on one core with bf16, forty in all.
Command  maxmincaps study run by-heart
"""

from maxmincaps.studies.study import HALF_PRECISION, Budget, Line, Study

HELD_OUT = 20_000
SABOURS_SLOW = {"initial_values": "sabour", "primary_rate": 1.0, "vote_sigma": 0.001, "vote_rate": 0.1}
SABOURS_SLOW_LABEL = "Sabour's values, a slow W"

BY_HEART = Study(
    name="by-heart",
    title="Learnt by heart",
    claim="What a network generalises by once its training images are learnt by heart.",
    about=__doc__,
    datasets=("mnist",),
    lines=(
        Line("default", {}),
        Line("reconstruction 20×", {"reconstruction_weight": 0.01}),
        Line("cosine", {"schedule": "cosine"}),
        Line(SABOURS_SLOW_LABEL, SABOURS_SLOW),
    ),
    scales={"small": (Budget(epochs=8, train_images=10_000, changes={"validation": HELD_OUT, **HALF_PRECISION}),)},
    notes={"small": f"not in the paper; 10,000 training images, 8 epochs, judged by {HELD_OUT:,} held-out ones"},
)
