"""Ours: what modern training is worth here.

Claim    none of the paper's. Options of training that help elsewhere, each alone beside plain training.
Runs     MNIST with Max-Min, 5,000 training images, 4 epochs, 3 seeds: plain; a cosine instead of the slow decay; a
         moving average of the weights; no warm-up; shifts of up to 2 pixels; batches of 256 at twice the rate.
Measure  accuracy on the last 5,000 training images, which are held out: the best epoch's and the last one's.
Cost     about four minutes a run on one core, an hour and a quarter in all.
Command  maxmincaps study run options
"""

from maxmincaps.studies.study import Budget, Line, Study

PLAIN = {"schedule": "decay", "average": 0.0, "warmup": 50}

OPTIONS = Study(
    name="options",
    title="Options of training",
    claim="What modern options of training are worth, each beside the default.",
    about=__doc__,
    datasets=("mnist",),
    lines=(
        Line("plain", PLAIN),
        Line("cosine", {**PLAIN, "schedule": "cosine"}),
        Line("average", {**PLAIN, "average": 0.999}),
        Line("no warm-up", {**PLAIN, "warmup": 0}),
        Line("shifts of 2 pixels", {**PLAIN, "shift": 2}),
        Line("batch 256, twice the rate", {**PLAIN, "batch_size": 256, "learning_rate": 0.002}),
    ),
    scales={"small": (Budget(epochs=4, seeds=3, train_images=5_000, changes={"validation": 5_000}),)},
    notes={"small": "not in the paper; 5,000 training images, 4 epochs, judged by 5,000 held-out training images"},
)
