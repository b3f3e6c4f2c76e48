"""Ablations (not in the paper): one detail of the implementation changed at a time.

Claim    none of the paper's. Implementations of capsule routing differ in details that papers leave open. This study
         measures what each is worth, beside the default.
Runs     MNIST with Max-Min: the default; gradients through all iterations; the reconstruction loss weighted 20 times as
         much, as in Sabour's code; no ReLU in PrimaryCaps, or no squash; uniform routing coefficients; and the recipe
         `paper`: Sabour's initial values and one learning rate for all weights.
Measure  the best test accuracy, and the final one.
Cost     at 210 images/s (full backpropagation: 60): about 190 hours at `paper`, 2 at `small`.
Command  maxmincaps study run ablations --scale small
"""

from maxmincaps.recipe import settings_in
from maxmincaps.studies.study import WITH_RELU, Budget, Line, Study
from maxmincaps.studies.table_1_datasets import MINUTE

ABLATIONS = Study(
    name="ablations",
    title="Ablations",
    claim="What the details that papers leave open are worth, each beside the default.",
    about=__doc__,
    datasets=("mnist",),
    lines=(
        Line("default", {}),
        Line("full backpropagation", {"full_backpropagation": True}),
        Line("reconstruction 20×", {"reconstruction_weight": 0.01}),
        Line("no ReLU", {"relu": False}),
        Line("no squash in PrimaryCaps", {"squash_parts": False}),
        Line("uniform couplings", {"normalization": "uniform"}),
        Line("literal recipe", settings_in("paper")),
    ),
    settings=WITH_RELU,
    scales={
        "paper": (Budget(epochs=50, seeds=5),),
        "full": (Budget(epochs=20, seeds=5),),
        "small": (Budget(epochs=8, seeds=2, train_images=10_000),),
        "minute": (MINUTE,),
    },
    notes={
        "paper": "not in the paper; the number of epochs is ours",
        "full": "not in the paper",
        "small": "10,000 of 60,000 training images, 8 epochs; not in the paper",
        "minute": "a smaller network than the paper's",
    },
)
