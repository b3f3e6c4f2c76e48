"""Figures 2 to 6: inside trained networks.

Claim    Softmax's couplings stay near their start of 0.1, Max-Min's spread over 0 to 1 and give a child several strong
         parents (figures 2 to 4). On CIFAR10 Max-Min makes the true class longer and the others shorter, and the tuning
         curves keep their shape (figures 5 and 6).
Runs     none of their own: both normalizations of `datasets`, MNIST and CIFAR10. Figures show seed 0, claims use all.
Measure  histograms of logits and couplings of one training image at every iteration; the couplings of three children;
         the ten lengths of some test images; the mean lengths over each class of the test set.
Command  maxmincaps study run evolution --scale small (or rows, outputs, tuning: the same runs)
"""

from maxmincaps.studies.study import Study
from maxmincaps.studies.table_1_datasets import TABLE_1

SHOWN = {"dataset": ("mnist", "cifar10", "mnist-5k"), "line": ("Softmax", "Max-Min")}
"""The networks that the figures and claims look into."""
TRACE, LENGTHS = "trace.safetensors", "lengths.safetensors"
"""Logits and routing coefficients of one training image; class lengths of every test image."""

_FIGURES = {
    "evolution": ("Figures 2, 3", "Softmax's couplings stay near 0.1, Max-Min's spread over 0 to 1.", TRACE),
    "rows": ("Figure 4", "Max-Min gives one child several strong parents; Softmax hardly distinguishes them.", TRACE),
    "outputs": ("Figure 5", "On CIFAR10 Max-Min makes the true class longer and the others shorter.", LENGTHS),
    "tuning": ("Figure 6", "The tuning curves of the class capsules have the same shape under both.", LENGTHS),
}

EVOLUTION, ROWS, OUTPUTS, TUNING = (
    Study(name=name, title=title, claim=claim, about=__doc__, borrows=TABLE_1, borrowed=SHOWN, files=(file,))
    for name, (title, claim, file) in _FIGURES.items()
)
