"""Figure 1: the architecture.

Claim    A 28×28 image becomes 20×20×256 features, 6×6×32 = 1152 capsules of 8 numbers, and 10 capsules of 16.
Runs     none: the figure is drawn from the network's own shapes.
Command  maxmincaps report
"""

from maxmincaps.studies.study import PaperValue, Study

ARCHITECTURE = Study(
    name="architecture",
    title="Figure 1",
    claim="Conv1, PrimaryCaps with 1152 capsules, DigitCaps with 10, and a decoder of three layers.",
    about=__doc__,
    paper=(PaperValue("children", 1152), PaperValue("parents", 10)),
)
