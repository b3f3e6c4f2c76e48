"""Training options that help elsewhere.

Claim    none of the paper's. Each option alone, beside plain training.
Runs     MNIST with Max-Min, 5,000 training images, 4 epochs, 3 seeds: plain; a cosine instead of the slow decay; EMA of
         the weights; no warm-up; shifts of up to 2 pixels; batches of 256 at twice the rate.
Measure  accuracy on the validation set, the last 5,000 training images: the best epoch's and the final one's.
Cost     about four minutes a run on one core, an hour and a quarter in all.
Command  maxmincaps study run research/options.py --out research/runs
"""

from maxmincaps.studies.study import Budget, Line, Study

PLAIN = {"schedule": "decay", "ema_decay": 0.0, "warmup": 50}

STUDY = Study(
    name="options",
    title="Training options",
    claim="What training options that help elsewhere are worth here, each beside plain training.",
    datasets=("mnist",),
    lines=(
        Line("plain", PLAIN),
        Line("cosine", {**PLAIN, "schedule": "cosine"}),
        Line("EMA of the weights", {**PLAIN, "ema_decay": 0.999}),
        Line("no warm-up", {**PLAIN, "warmup": 0}),
        Line("shifts of 2 pixels", {**PLAIN, "shift": 2}),
        Line("batch 256, twice the rate", {**PLAIN, "batch_size": 256, "learning_rate": 0.002}),
    ),
    settings={"relu": True},
    scales={"small": (Budget(epochs=4, seeds=3, train_images=5_000, changes={"validation": 5_000}),)},
    notes={"small": "5,000 training images, 4 epochs, 5,000 validation images"},
)
