"""Figures 7 and 8: more routing iterations.

Claim    More iterations improve Max-Min and harm Softmax, on all five datasets; and the gap between training and test
         accuracy is smaller with Max-Min.
Runs     5 datasets × {softmax, max-min} × iterations. The paper does not list the counts; ours: 1, 2, 3, 5, 7, 10.
Measure  the best test accuracy, and the difference of the mean maximum training and mean maximum test accuracies; an
         epoch's training accuracy is counted while it trains, on images as they are trained on.
Cost     at 210 images/s: about 770 hours at `paper`, 310 at `full`, 4 at `small` (MNIST, rMNIST; r = 1, 3, 5, 10).
Command  maxmincaps study run iterations --scale small
"""

from dataclasses import replace

from maxmincaps.studies.laptop import LAPTOP, NOTE, laptop_budgets
from maxmincaps.studies.study import DATASETS, HALF_PRECISION, MAX_MIN, SOFTMAX, WITH_RELU, Budget, Line, Study
from maxmincaps.studies.table_1_datasets import MINUTE, UNSTATED

COUNTS = (1, 2, 3, 5, 7, 10)
_SMALL = {"seeds": 2, "values": (1, 3, 5, 10)}

ITERATIONS = Study(
    name="iterations",
    title="Figures 7, 8",
    claim="More routing iterations improve Max-Min and harm Softmax, and Max-Min overfits less.",
    about=__doc__,
    datasets=DATASETS,
    lines=tuple(
        Line(line.label, {**line.settings, "iterations": count}, count)
        for count in COUNTS
        for line in (SOFTMAX, MAX_MIN)
    ),
    settings=WITH_RELU,
    scales={
        "paper": (Budget(epochs=50, seeds=5),),
        "full": (Budget(epochs=20, seeds=5),),
        LAPTOP: laptop_budgets(3, values=(1, 3, 5, 10)),
        "small": (
            Budget(epochs=8, train_images=10_000, datasets=("mnist",), **_SMALL),
            Budget(epochs=10, test_images=5_000, datasets=("rotated-mnist",), changes=HALF_PRECISION, **_SMALL),
        ),
        "minute": (replace(MINUTE, values=(1, 3, 5)),),
    },
    notes={
        "paper": UNSTATED + ", and so are the numbers of iterations and of runs",
        "full": "the paper states neither epochs nor runs nor the numbers of iterations: all are ours",
        LAPTOP: NOTE,
        "small": "MNIST: 10,000 of 60,000 training images, 8 epochs, as in Table 4, whose runs those of r = 3 are; "
        "rotated MNIST: 10 epochs, each evaluated on 5,000 of 50,000 test images, large products in bf16",
        "minute": "a smaller network than the paper's",
    },
)
