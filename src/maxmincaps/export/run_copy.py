"""A run's record, small enough to share: the weights of one epoch in half precision, and a card."""

from pathlib import Path
from typing import Literal, NamedTuple

from maxmincaps.export.card import card_facts, empty_folder, told_recipe
from maxmincaps.export.hub import model_card
from maxmincaps.training.checkpoint import load_network, load_tensors, save_tensors
from maxmincaps.training.run import Run
from maxmincaps.training.verify import evaluate_run
from maxmincaps.wording import percent

TOLD = ("recipe.json", "data.json", "environment.json", "history.jsonl", "result.json")
USE = {
    weights: f"""from maxmincaps import load_network

network = load_network({arguments})"""
    for weights, arguments in (("best", '"this folder"'), ("last", '"this folder", "last"'))
}


class Shared(NamedTuple):
    """A record that was written, and what its network gets right."""

    folder: Path
    accuracy: float
    images: int


def save_small_record(folder: Path | str, out: Path | str, weights: Literal["best", "last"] = "best") -> Shared:
    """Write a record that `predict`, `app` and `load_network` take as any other, and measure it on the test set."""
    record, facts = Run(Path(folder)), card_facts(folder, weights)
    tensors, note = load_tensors(record.folder / f"{weights}.safetensors")
    half = {name: tensor.half() for name, tensor in tensors.items()}
    small = Run(empty_folder(out))
    try:
        save_tensors(small.folder / f"{weights}.safetensors", half, note)
        for name in TOLD:  # result.json last, as in every record
            small.write(name, record.read(name))
        accuracy, images = evaluate_run(small.folder, weights)
        facts |= {"use": USE[weights], "half": True, "accuracy": f"{percent(accuracy)} of {images:,} test images"}
        small.write("README.md", str(model_card(load_network(small.folder, weights), facts)))
        _without_places(small)
    except BaseException:  # half a record would be taken for a whole one
        for path in small.folder.iterdir():
            path.unlink()
        raise
    return Shared(small.folder, accuracy, images)


def _without_places(small: Run) -> None:
    """Take out where a user keeps images of their own."""
    told, data = told_recipe(small), small.data
    if told != small.recipe:
        small.write("data.json", data.model_copy(update={"name": told.dataset, "dataset_path": None}))
        small.write("recipe.json", told.to_json())
