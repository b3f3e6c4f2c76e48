"""Learning rates of PrimaryCaps and W.

Claim    none of the paper's, which has one rate for all weights. Each normalization is compared at its own best
         setting, found with the same effort: the same twelve settings are tried for both.
Runs     MNIST, 10,000 training images, one epoch, a warm-up of 50 steps; PrimaryCaps at 0.05, 0.3 and 1 times the
         learning rate; W at 0.3, 1, 3 and 10 times the learning rate over the mean routing coefficient (Softmax 0.1,
         Max-Min 0.4), because W acts multiplied by it.
Measure  accuracy on the validation set, the last 5,000 training images. The test set chooses nothing.
Cost     about two minutes a run on one core.
Command  maxmincaps study run research/rates.py --out research/runs
"""

from itertools import product

from maxmincaps.studies.study import NAMES, Budget, Line, Study

PRIMARY_RATES = (0.05, 0.3, 1.0)
VOTE_RATES = (0.3, 1.0, 3.0, 10.0)
MEAN_COEFFICIENTS = {"softmax": 0.1, "max-min": 0.4}
"""Mean routing coefficient of a lower-level capsule over ten classes; for Max-Min, of logits of ordinary size."""

STUDY = Study(
    name="rates",
    title="Learning rates",
    claim="Which learning rates of PrimaryCaps and W suit Softmax and Max-Min.",
    datasets=("mnist",),
    lines=tuple(
        Line(
            f"{NAMES[name]}, PrimaryCaps {primary:g}, W {votes:g}",
            {"normalization": name, "primary_rate": primary, "vote_rate": votes / MEAN_COEFFICIENTS[name]},
        )
        for primary, votes, name in product(PRIMARY_RATES, VOTE_RATES, NAMES)
    ),
    settings={"relu": True, "warmup": 50, "ema_decay": 0.0},
    scales={"small": (Budget(epochs=1, train_images=10_000, changes={"validation": 5_000}),)},
    notes={"small": "10,000 training images, one epoch, 5,000 validation images"},
)
