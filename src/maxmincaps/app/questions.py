"""The content of a poll: the images that a majority vote of trained networks gets wrong."""

from collections.abc import Sequence
from pathlib import Path

import torch

from maxmincaps.analysis.poll import Poll, Question
from maxmincaps.analysis.vote import vote
from maxmincaps.data.augment import for_testing
from maxmincaps.data.batches import as_float
from maxmincaps.data.images import images_of
from maxmincaps.errors import InputError
from maxmincaps.training.responses import responses
from maxmincaps.training.run import Run


def build_questionnaire(runs: Sequence[Path], images: Sequence[int] | None = None) -> Poll:
    """Collect the test images that the majority vote of runs gets wrong, or the test images with these indices."""
    decision = vote([responses(run) for run in runs])
    recipe = Run(runs[0]).recipe
    test = images_of(recipe, "test")
    if not torch.equal(test.labels, decision.labels):
        raise InputError(f"{runs[0]}: was tested on other images than {recipe.dataset} has here")
    chosen = sorted(set(decision.wrong.tolist() if images is None else images))
    if not chosen:
        raise InputError("this majority vote gets no image wrong; choose images with --images 1,2,3")
    for image in chosen:
        if not 0 <= image < len(test):
            raise InputError(f"--images: expected 0 to {len(test) - 1}, found {image}")
    # People see what the network sees: the central window if it was trained on crops.
    seen = for_testing(recipe.with_changes(whiten=False))(as_float(test.images[chosen]))
    pixels = seen.mul(255).round().to(torch.uint8).numpy()
    none = torch.zeros(len(test.classes), dtype=torch.int64).numpy()
    questions = [
        Question(
            image=image,
            label=int(decision.labels[image]),
            prediction=int(decision.predictions[image]),
            network=decision.lengths[image].double().numpy(),
            pixels=pixels[place],
            counts=none,
        )
        for place, image in enumerate(chosen)
    ]
    # Of a folder of own images only the name is stored, because the path is private.
    return Poll(Path(recipe.dataset).name, tuple(test.classes), len(runs), questions)
