"""Introduction: the upper bound and the start value of Max-Min.

Claim    The network performs well for every upper bound q and every start value from 0.01 to 1.0.
Runs     MNIST, Max-Min with q over that range (start 1.0), and with the start value over it (q = 1). The default recipe
         increases W's initial sigma and learning rate as q falls, a hundred times at q = 0.01, which compensates for
         q. So q is also varied with W's sigma and rate fixed at the values that the paper's network has for q = 1.
Measure  the best test accuracy against the bound. data.json holds the sigma and the rate that were used.
Cost     at 210 images/s: about 260 hours at `paper`, 104 at `full`, an hour at `small`.
Command  maxmincaps study run bounds --scale small
"""

from dataclasses import replace
from typing import Any

from maxmincaps.studies.laptop import LAPTOP, NOTE, laptop_budgets
from maxmincaps.studies.study import HALF_PRECISION, WITH_RELU, Budget, Line, Study
from maxmincaps.studies.table_1_datasets import MINUTE, UNSTATED

VALUES = (0.01, 0.03, 0.1, 0.3, 1.0)
VOTE_SIGMA, VOTE_RATE = 0.02024, 2.5136
"""W's initial sigma and learning rate that the defaults give the paper's MNIST network for Max-Min with q = 1."""

Q, W_KEPT, START = "upper bound q", "upper bound q, W kept", "start value"
"""The lines: what is varied."""


def _settings(label: str, value: float) -> dict[str, Any]:
    if value == 1.0:  # the recipe's default, a run that other studies have too
        return {}
    if label == START:
        return {"start": value}
    fixed = {"vote_sigma": VOTE_SIGMA, "vote_rate": VOTE_RATE} if label == W_KEPT else {}
    return {"high": value, **fixed}


BOUNDS = Study(
    name="bounds",
    title="Introduction",
    claim="Max-Min performs well for all upper bounds and all start values from 0.01 to 1.0.",
    about=__doc__,
    datasets=("mnist",),
    lines=tuple(
        Line(label, {"normalization": "max-min", **_settings(label, value)}, value)
        for value in VALUES
        for label in (Q, W_KEPT, START)
    ),
    settings=WITH_RELU,
    scales={
        "paper": (Budget(epochs=50, seeds=5),),
        "full": (Budget(epochs=20, seeds=5),),
        LAPTOP: (
            # A quarter of the children: the default sigma of W for q = 1 is twice that of the paper's network.
            *(
                replace(budget, changes={**budget.changes, "vote_sigma": 2 * VOTE_SIGMA})
                for budget in laptop_budgets(3, ("mnist",), lines=(W_KEPT,), values=VALUES[:-1])
            ),
            *laptop_budgets(3, ("mnist",)),
        ),
        "small": (Budget(epochs=4, train_images=10_000, changes=HALF_PRECISION),),
        "minute": (replace(MINUTE, values=(0.01, 0.1, 1.0)),),
    },
    notes={
        "paper": UNSTATED + ", and so are the values between 0.01 and 1.0",
        "full": "the paper states neither epochs nor runs: 20 and 5 are ours",
        LAPTOP: NOTE,
        "small": "10,000 of 60,000 training images, 4 epochs, one run each; large products in bf16",
        "minute": "a smaller network than the paper's",
    },
)
