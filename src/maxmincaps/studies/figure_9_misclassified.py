"""Figures 9 and A.1 to A.3: the misclassified images.

Claim    The vote of three Max-Min networks errs on 17 of MNIST's 10,000 test images; models A and B on 20, C on 23.
Runs     none of its own: the three Max-Min networks of `mnist-record` that vote.
Measure  each model's and the vote's misclassified images with index, prediction and label; the confusion matrix.
Command  maxmincaps study run misclassified --scale small (trains what `mnist-record` has not trained yet)
"""

from maxmincaps.studies.study import Study
from maxmincaps.studies.table_2_mnist_record import MNIST_RECORD
from maxmincaps.studies.table_3_poll import VOTERS

MISCLASSIFIED = Study(
    name="misclassified",
    title="Figures 9, A.1–A.3",
    claim="The vote of three errs on fewer images than each of its models.",
    about=__doc__,
    paper=tuple(value for value in MNIST_RECORD.paper if value.measure.endswith("_misclassified")),
    borrows=MNIST_RECORD,
    borrowed=VOTERS,
)
