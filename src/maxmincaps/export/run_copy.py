"""Write a small copy of a run to share: the weights of one epoch in half precision, and a model card."""

from pathlib import Path
from typing import Literal, NamedTuple

import torch

from maxmincaps.capsules.network import CapsNet
from maxmincaps.data.augment import for_testing
from maxmincaps.errors import InputError, one_line
from maxmincaps.export.card import card_facts, new_directory, shareable_recipe
from maxmincaps.export.hub import model_card
from maxmincaps.training.checkpoint import load_network, load_tensors, save_tensors
from maxmincaps.training.evaluate import accuracy, class_lengths, images_seen
from maxmincaps.training.run import Run
from maxmincaps.wording import percent

COPIED = ("environment.json", "history.jsonl", "result.json")
RANDOM_IMAGES = 100
USE = {
    weights: f"""from maxmincaps import load_network

network = load_network({arguments})"""
    for weights, arguments in (("best", '"this folder"'), ("last", '"this folder", "last"'))
}


class SmallRun(NamedTuple):
    """A copy that was written, and how it was checked: by its accuracy on test images, or on random ones."""

    folder: Path
    accuracy: float | None
    """None if the test images could not be used."""
    images: int
    checked: str
    """The check in words."""


def save_small_run(
    folder: Path | str,
    out: Path | str,
    weights: Literal["best", "last"] = "best",
    dataset: Path | str | None = None,
) -> SmallRun:
    """Write a copy that `predict`, `app` and `load_network` take as any other run, and measure it on the test set.

    The copy is built beside `out` and renamed at the end. Paths of the user's own images are removed before.

    Args:
        folder: The run folder.
        out: The folder to create.
        weights: Weights of the best epoch or of the last one.
        dataset: Where the run's images are now. Default: where they were when it was trained. Without them, the
            copy is compared with the run on random images, and its card states the accuracy of the run.
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
        network = load_network(staged, weights)
        facts |= {"use": USE[weights], "half": True}
        try:
            test = images_seen(run, dataset).test
        except InputError as error:
            measured, images = None, RANDOM_IMAGES
            difference = _difference_on_random_images(network, load_network(folder, weights))
            checked = (
                f"lengths differ by at most {difference:.1e} from the run's on {images} random images, as the test "
                f"images cannot be used ({one_line(error)})"
            )
        else:
            measured = accuracy(class_lengths(network, test, for_testing(run.recipe)), test.labels)
            images, checked = len(test), f"{percent(measured)} of {len(test):,} test images right"
            facts["accuracy"] = f"{percent(measured)} of {images:,} test images"
        small.write("README.md", str(model_card(network, facts)))
    return SmallRun(Path(out), measured, images, checked)


@torch.no_grad()
def _difference_on_random_images(network: CapsNet, other: CapsNet) -> float:
    """Return the largest difference of the class lengths of two networks."""
    images = torch.rand(RANDOM_IMAGES, *network.image_shape, generator=torch.Generator().manual_seed(0))
    return (network(images).lengths - other(images).lengths).abs().max().item()
