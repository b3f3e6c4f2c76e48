"""Write a small copy of a run to share: the weights of one epoch in half precision, and a model card."""

from pathlib import Path
from typing import Literal, NamedTuple

from maxmincaps.data.augment import for_testing
from maxmincaps.export.card import card_facts, new_directory, shareable_recipe
from maxmincaps.export.hub import model_card
from maxmincaps.training.checkpoint import load_network, load_tensors, save_tensors
from maxmincaps.training.evaluate import accuracy, class_lengths
from maxmincaps.training.run import Run
from maxmincaps.training.run_images import images_seen
from maxmincaps.wording import percent

COPIED = ("environment.json", "history.jsonl", "result.json")
USE = {
    weights: f"""from maxmincaps import load_network

network = load_network({arguments})"""
    for weights, arguments in (("best", '"this folder"'), ("last", '"this folder", "last"'))
}


class SmallRun(NamedTuple):
    """A copy that was written, and its accuracy on the test images."""

    folder: Path
    accuracy: float
    images: int


def save_small_run(folder: Path | str, out: Path | str, weights: Literal["best", "last"] = "best") -> SmallRun:
    """Write a copy that `predict`, `app` and `load_network` take as any other run, and measure it on the test set.

    The copy is built beside `out` and renamed at the end. Paths of the user's own images are removed before.

    Args:
        folder: The run folder.
        out: The folder to create.
        weights: Weights of the best epoch or of the last one.
    """
    run, facts = Run(Path(folder)), card_facts(folder, weights)
    tensors, note = load_tensors(run.folder / f"{weights}.safetensors")
    half = {name: tensor.half() for name, tensor in tensors.items()}
    recipe = shareable_recipe(run)
    with new_directory(out) as staged:
        small = Run(staged)
        save_tensors(staged / f"{weights}.safetensors", half, note)
        small.write("recipe.json", recipe.to_json())
        small.write("data.json", run.data.model_copy(update={"name": recipe.dataset, "dataset_path": None}))
        for name in COPIED:
            small.write(name, run.read(name))
        test = images_seen(run).test
        lengths = class_lengths(load_network(staged, weights), test, for_testing(run.recipe))
        measured, images = accuracy(lengths, test.labels), len(test)
        facts |= {"use": USE[weights], "half": True, "accuracy": f"{percent(measured)} of {images:,} test images"}
        small.write("README.md", str(model_card(load_network(staged, weights), facts)))
    return SmallRun(Path(out), measured, images)
