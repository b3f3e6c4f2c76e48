"""A run's network as a folder for the hub, with a card that says what its record says."""

from pathlib import Path
from typing import Any, Literal

from maxmincaps.data.cache import make_directory
from maxmincaps.data.catalog import DATASETS
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network, load_tensors
from maxmincaps.training.run import Run
from maxmincaps.wording import percent, pluralize


def save_for_hub(folder: Path | str, out: Path | str, weights: Literal["best", "last"] = "best") -> Path:
    """Write config.json, model.safetensors and the model card: `CapsNet.from_pretrained(out)` reads them."""
    network, facts = load_network(folder, weights), card_facts(folder, weights)
    out = empty_folder(out)
    network.save_pretrained(out, model_card_kwargs=facts)
    return out


def empty_folder(out: Path | str) -> Path:
    """Make a folder, or refuse one in which something would be written over."""
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: is not an empty folder; choose another")
    make_directory(out)
    return out


def card_facts(folder: Path | str, weights: Literal["best", "last"] = "best") -> dict[str, Any]:
    """Give what a run's record knows: data, recipe, accuracy, budget, licence, citation."""
    record = Run(Path(folder))
    data, result, where = record.data, record.result, record.environment
    recipe = told_recipe(record)
    name, dataset = recipe.dataset, DATASETS.get(recipe.dataset)
    accuracy = result.best_test_accuracy if weights == "best" else result.final_test_accuracy
    facts = {
        "title": f"A capsule network for {name}, routed with {recipe.normalization}",
        "accuracy": f"{percent(accuracy)} of {data.test_images:,} test images",
        "weights": weights,
        "epoch": load_tensors(record.folder / f"{weights}.safetensors")[1]["epoch"],
        "epochs": result.epochs,
        "chosen_by": f"the {result.best_chosen_by} images",
        "classes": data.classes,
        "whiten": recipe.whiten,
        "data": f"{name}: {data.train_images:,} images to train, {data.test_images:,} to test."
        + (" Regenerated here by the authors' procedure, not their own draw." if data.regenerated else ""),
        "budget": f"{pluralize(result.epochs, 'epoch')}, {pluralize(result.steps, 'step')} of {recipe.batch_size} "
        f"images, {result.seconds:.0f} s on {where.processor} "
        f"({where.device}, {pluralize(where.threads, 'thread')}).",
        "recipe": recipe.to_json().strip(),
        "fingerprint": record.recipe.fingerprint(),
    }
    return facts | ({"data_licence": dataset.licence, "data_citation": dataset.citation} if dataset else {})


def told_recipe(record: Run) -> Recipe:
    """Give a run's recipe for others to read: where its user keeps images of their own is nobody's business."""
    recipe = record.recipe
    return recipe if recipe.dataset in DATASETS else recipe.with_changes(dataset="the user's own images")
