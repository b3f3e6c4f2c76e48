"""Ours: does everything learn at the first try?

Claim    none of the paper's. With the default recipe every normalization and every number of iterations trains without
         infinite or undefined values, and Max-Min classifies 95 % of the digits of mnist-5k within six epochs.
Runs     mnist-5k, batches of 50, 6 epochs: all normalizations at three iterations; Softmax and Max-Min at 1, 5 and 10.
Measure  the best test accuracy and the final one, on 1,000 digits; runs that diverged are counted.
Cost     about four minutes a run on one core, an hour in all.
Command  maxmincaps study run first-try
"""

from maxmincaps.studies.study import MAX_MIN, SOFTMAX, Budget, Line, Study
from maxmincaps.studies.table_4_normalizations import TABLE_4
from maxmincaps.wording import pluralize

FIRST_TRY = Study(
    name="first-try",
    title="At the first try",
    claim="With the default recipe every normalization and every number of iterations learns.",
    about=__doc__,
    datasets=("mnist-5k",),
    lines=(
        *TABLE_4.lines,
        Line("Leaky Softmax", {"normalization": "leaky-softmax"}),
        *(
            Line(f"{line.label}, {pluralize(count, 'iteration')}", {**line.settings, "iterations": count})
            for count in (1, 5, 10)
            for line in (SOFTMAX, MAX_MIN)
        ),
    ),
    settings={"batch_size": 50},
    scales={"small": (Budget(epochs=6),)},
    notes={"small": "not in the paper; 4,000 digits for training, 1,000 for testing, 6 epochs"},
)
