"""Table 3 and figure 10: the misclassified images put to people.

Claim    For 6 of the 17 images that the vote of three gets wrong, people agree with the network and not with the label.
Runs     none of its own: the three Max-Min networks of `mnist-record` that vote, and the answers of the poll.
Measure  the share of people, and the networks' mean length, on the true and on the predicted label.
Command  maxmincaps study run mnist-record --scale small, then the poll
"""

from maxmincaps.studies.study import PaperValue, Study
from maxmincaps.studies.table_2_mnist_record import MNIST_RECORD

TABLE_3 = (
    # image, label, people and network on the label, prediction, people and network on the prediction
    (1260, 7, 0.38, 0.53, 1, 0.54, 0.64),
    (1901, 9, 0.29, 0.18, 4, 0.61, 0.79),
    (2597, 5, 0.47, 0.23, 3, 0.51, 0.79),
    (4823, 9, 0.42, 0.52, 4, 0.55, 0.71),
    (5937, 5, 0.38, 0.55, 3, 0.60, 0.76),
    (9729, 5, 0.15, 0.48, 6, 0.82, 0.80),
)

VOTERS = {"line": ("Max-Min",), "seed": ("0", "1", "2")}
"""The three networks that vote: models A, B and C of the paper."""

POLL = Study(
    name="poll",
    title="Table 3, figure 10",
    claim="For 6 of the 17 misclassified images, people agree with the network's prediction and not with the label.",
    about=__doc__,
    paper=(
        PaperValue("people", 120),
        PaperValue("images", 17),
        PaperValue("people_agree_with_network", 6, n=17),
    ),
    borrows=MNIST_RECORD,
    borrowed=VOTERS,
)
