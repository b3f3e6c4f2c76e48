"""Ours: is the paper's gain a gain of the recipe?

Claim    none of the paper's, but about its largest: on background MNIST it has Max-Min four points above Softmax. Under
         our default recipe, which lets W learn the faster the smaller the couplings are, the two are nearly level. Are
         they apart under the paper's own words, and if so, is it routing or the size of the couplings that W acts
         through: 0.1 on average under Softmax, four times as much under Max-Min?
Runs     background MNIST, Softmax and Max-Min: with the default recipe (the runs of Table 1), and with the recipe
         `paper`, that is Sabour's initial values, one learning rate for all weights, no warm-up and no averaging. With
         the latter also the control, whose couplings never change, and Softmax with a W that learns four times as fast.
Measure  the best test accuracy, and the final one.
Cost     at 210 images/s: about 51 hours at `paper`, 21 at `full`, 5 at `small`, a third of it shared with Table 1.
Command  maxmincaps study run literal --scale small
"""

from maxmincaps.recipe import settings_in
from maxmincaps.studies.study import MAX_MIN, SOFTMAX, Budget, Line, Study
from maxmincaps.studies.table_1_datasets import MINUTE
from maxmincaps.studies.table_4_normalizations import UNIFORM


def _literal(line: Line) -> Line:
    return Line(f"{line.label}, literal recipe", {**settings_in("paper"), **line.settings})


LITERAL = Study(
    name="literal",
    title="Taken literally",
    claim="Whether Max-Min gains with a background depends on the recipe that both are trained with.",
    about=__doc__,
    datasets=("background-mnist",),
    lines=(
        *(Line(f"{line.label}, default recipe", line.settings) for line in (SOFTMAX, MAX_MIN)),
        *(_literal(line) for line in (SOFTMAX, MAX_MIN, UNIFORM)),
        _literal(Line("Softmax, W four times as fast", {"normalization": "softmax", "vote_rate": 4.0})),
    ),
    scales={
        "paper": (Budget(epochs=50, seeds=5),),
        "full": (Budget(epochs=20, seeds=5),),
        "small": (Budget(epochs=20, seeds=2, test_images=10_000),),
        "minute": (MINUTE,),
    },
    notes={
        "paper": "not in the paper; the epochs are ours",
        "full": "not in the paper",
        "small": "20 epochs, each judged by 10,000 test images; not in the paper",
        "minute": "a smaller network than the paper's",
    },
)
