"""Table 4: other normalizations.

Claim    Max-Min is best; centred Max-Min and adjusted log come near it, winner-take-all costs only 0.3 percentage
         points, z-score as much, sum hardly converges.
Runs     MNIST, six normalizations from routing coefficients (couplings) of 1.0; beside them Softmax, Softmax from 1.0
         (a footnote of the paper: no better) and, not in the paper, uniform coefficients as a control. 5 seeds.
Measure  mean ± sd over runs of the best test accuracy, and of the final one; runs that diverged are counted.
Cost     at 210 images/s: about 180 hours at `paper`, 72 at `full`, 3 at `small` (10,000 images, 8 epochs, 3 seeds).
Command  maxmincaps study run normalizations --scale small
"""

from maxmincaps.studies.laptop import LAPTOP, NOTE, laptop_budgets
from maxmincaps.studies.study import MAX_MIN, SOFTMAX, UNIFORM, WITH_RELU, Budget, Line, PaperValue, Study
from maxmincaps.studies.table_1_datasets import MINUTE, UNSTATED

SOFTMAX_FROM_ONES = Line("Softmax from 1.0", {"normalization": "softmax", "start": 1.0})

TABLE_4 = Study(
    name="normalizations",
    title="Table 4",
    claim="Max-Min is the best of six normalizations that start from couplings of 1.0.",
    about=__doc__,
    paper=(
        *(
            PaperValue("best_test_accuracy", value, sd, line=line)
            for line, value, sd in (
                ("Max-Min", 99.55, 0.02),
                ("Centered Max-Min", 99.52, 0.03),
                ("Adjusted Log", 99.50, 0.01),
                ("WTA", 99.24, 0.36),
                ("Z-Score", 99.21, 0.03),
                ("Sum", 72.62, 30.05),
            )
        ),
        PaperValue("best_test_accuracy", 99.28, 0.06, n=5, line="Softmax"),
        PaperValue("best_test_accuracy", 99.30, 0.03, line="Softmax from 1.0"),
    ),
    datasets=("mnist",),
    lines=(
        MAX_MIN,
        Line("Centered Max-Min", {"normalization": "centered-max-min"}),
        Line("Adjusted Log", {"normalization": "adjusted-log"}),
        Line("WTA", {"normalization": "winner-take-all"}),
        Line("Z-Score", {"normalization": "z-score"}),
        Line("Sum", {"normalization": "sum"}),
        SOFTMAX,
        SOFTMAX_FROM_ONES,
        UNIFORM,
    ),
    settings=WITH_RELU,
    scales={
        "paper": (Budget(epochs=50, seeds=5),),
        "full": (Budget(epochs=20, seeds=5),),
        LAPTOP: laptop_budgets(3, ("mnist",)),
        "small": (Budget(epochs=8, seeds=3, train_images=10_000),),
        "minute": (MINUTE,),
    },
    notes={
        "paper": UNSTATED + ", and so is the number of runs, 5",
        "full": "the paper states neither epochs nor runs: 20 and 5 are ours",
        LAPTOP: NOTE,
        "small": "10,000 of 60,000 training images, 8 epochs",
        "minute": "a smaller network than the paper's",
    },
)
