"""Ours: the learning rates of PrimaryCaps and W.

Claim    none of the paper's, which has one rate for all weights. Each normalization is to be compared at its own best
         setting, found with the same effort: the same twelve settings are tried for both.
Runs     MNIST, 10,000 training images, one epoch, a warm-up of 50 steps; PrimaryCaps at 0.05, 0.3 and 1 times the
         learning rate; W at 0.3, 1, 3 and 10 times the learning rate over the mean of the couplings (Softmax 0.1,
         Max-Min 0.4: W acts multiplied by them).
Measure  accuracy on the last 5,000 training images, which are held out. The test set chooses nothing.
Cost     about two minutes a run on one core.
Command  maxmincaps study run rates
"""

from itertools import product

from maxmincaps.studies.study import NAMES, Budget, Line, Study

PRIMARY = (0.05, 0.3, 1.0)
VOTES = (0.3, 1.0, 3.0, 10.0)
NEAREST_DEFAULT = (0.3, 1.0)
"""The pair of these that the default recipe's rule comes closest to, for both normalizations."""
COUPLINGS = {"softmax": 0.1, "max-min": 0.4}
"""The mean of a child's couplings to ten classes: for Max-Min's, of ordinary logits."""


def label(normalization: str, primary: float, votes: float) -> str:
    """Name a line of the study."""
    return f"{NAMES[normalization]}, PrimaryCaps {primary:g}, W {votes:g}"


RATES = Study(
    name="rates",
    title="Learning rates",
    claim="Which learning rates of PrimaryCaps and W suit Softmax and Max-Min.",
    about=__doc__,
    datasets=("mnist",),
    lines=tuple(
        Line(
            label(name, primary, votes),
            {"normalization": name, "primary_rate": primary, "vote_rate": votes / COUPLINGS[name]},
        )
        for primary, votes, name in product(PRIMARY, VOTES, NAMES)
    ),
    settings={"warmup": 50, "average": 0.0},
    scales={"small": (Budget(epochs=1, train_images=10_000, changes={"validation": 5_000}),)},
    notes={"small": "not in the paper; 10,000 training images, one epoch, judged by 5,000 held-out training images"},
)
