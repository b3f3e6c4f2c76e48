"""Does every normalization train with the default recipe?

Claim    none of the paper's. With the default recipe every normalization and every number of iterations trains without
         infinite or undefined values, and Max-Min classifies 95 % of the digits of mnist-5k within six epochs.
Runs     mnist-5k, batches of 50, 6 epochs: all normalizations at three iterations; Softmax and Max-Min at 1, 5 and 10.
Measure  the best test accuracy and the final one, on 1,000 digits; runs that diverged are counted.
Cost     about four minutes a run on one core, an hour in all.
Command  maxmincaps study run research/every_normalization.py --out research/runs
"""

from maxmincaps.studies import STUDIES
from maxmincaps.studies.study import MAX_MIN, SOFTMAX, Budget, Line, Study
from maxmincaps.wording import pluralize

STUDY = Study(
    name="every-normalization",
    title="Every normalization",
    claim="With the default recipe every normalization and every number of iterations learns.",
    datasets=("mnist-5k",),
    lines=(
        *STUDIES["normalizations"].lines,
        Line("Leaky Softmax", {"normalization": "leaky-softmax"}),
        *(
            Line(f"{line.label}, {pluralize(count, 'iteration')}", {**line.settings, "iterations": count})
            for count in (1, 5, 10)
            for line in (SOFTMAX, MAX_MIN)
        ),
    ),
    settings={"relu": True, "batch_size": 50},
    scales={"small": (Budget(epochs=6),)},
    notes={"small": "4,000 digits for training, 1,000 for testing, 6 epochs"},
)
