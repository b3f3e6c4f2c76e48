"""Write a run's network to share it, with a model card: as a folder for the hub, or as a small copy of the run."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from huggingface_hub import EvalResult
from safetensors import SafetensorError

from maxmincaps.data.augment import for_testing
from maxmincaps.data.catalog import DATASETS
from maxmincaps.errors import InputError, one_line
from maxmincaps.export.hub import CONFIG, model_card
from maxmincaps.files import make_directory, replacing_directory, reporting_write_errors
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network, load_tensors, save_tensors
from maxmincaps.training.evaluate import accuracy, class_lengths, images_seen
from maxmincaps.training.predict import PREPROCESSING, Preprocessing
from maxmincaps.training.run import Run
from maxmincaps.wording import percent, pluralize


def save_for_hub(folder: Path | str, out: Path | str, weights: Literal["best", "last"] = "best") -> Path:
    """Write config.json, model.safetensors, preprocessing and a model card, which `CapsNet.from_pretrained` reads."""
    network, facts, run = load_network(folder, weights), card_facts(folder, weights), Run(Path(folder))
    names = dict(enumerate(run.data.classes))
    with new_directory(out) as staged:
        network.save_pretrained(staged, model_card_kwargs=facts)
        config = json.loads((staged / CONFIG).read_text(encoding="utf-8"))
        config |= {"id2label": names, "label2id": {name: label for label, name in names.items()}}
        (staged / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        preprocessing = Preprocessing.of(run, shareable_recipe(run).dataset)
        (staged / PREPROCESSING).write_text(preprocessing.to_json() + "\n", encoding="utf-8")
    return Path(out)


class SmallRun(NamedTuple):
    """A copy that was written, its accuracy (None: the test images could not be used), and the check in words."""

    folder: Path
    accuracy: float | None
    checked: str


def save_small_run(
    folder: Path | str, out: Path | str, weights: Literal["best", "last"] = "best", dataset: Path | str | None = None
) -> SmallRun:
    """Write a copy that `predict`, `app` and `load_network` take as any other run, and measure it on the test set.

    It has the weights of one epoch in half precision and a model card, and no paths of the user's own images. Without
    the run's images (`dataset`: where they are now), it is compared with the run on random ones, and its card states
    the accuracy of the run.
    """
    run, facts = Run(Path(folder)), card_facts(folder, weights)
    tensors, note = load_tensors(run.folder / f"{weights}.safetensors")
    recipe = shareable_recipe(run)
    with new_directory(out) as staged:
        small = Run(staged)
        save_tensors(staged / f"{weights}.safetensors", {name: one.half() for name, one in tensors.items()}, note)
        small.write("recipe.json", recipe.to_json())
        small.write("data.json", run.data.model_copy(update={"name": recipe.dataset, "dataset_path": None}))
        for name in ("environment.json", "history.jsonl", "result.json"):
            small.write(name, run.read(name))
        network, measured = load_network(staged, weights), None
        arguments = '"this folder"' if weights == "best" else '"this folder", "last"'
        use = f"from maxmincaps import load_network\n\nnetwork = load_network({arguments})"
        try:
            test = images_seen(run, dataset).test
        except InputError as error:
            images = torch.rand(100, *network.image_shape, generator=torch.Generator().manual_seed(0))
            with torch.no_grad():
                difference = (network(images).lengths - load_network(folder, weights)(images).lengths).abs().max()
            checked = (
                f"lengths differ by at most {difference:.1e} from the run's on {len(images)} random images, as the "
                f"test images cannot be used ({one_line(error)})"
            )
        else:
            measured = accuracy(class_lengths(network, test, for_testing(run.recipe)), test.labels)
            facts["accuracy"] = f"{percent(measured)} of {len(test):,} test images"
            checked = f"{facts['accuracy']} right"
        small.write("README.md", str(model_card(network, {**facts, "use": use, "half": True})))
    return SmallRun(Path(out), measured, checked)


@contextmanager
def new_directory(out: Path | str) -> Iterator[Path]:
    """Build a directory beside `out`, and rename it to `out` at the end: it is complete or absent.

    Raises:
        InputError: If `out` exists and is not empty, or cannot be written.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: is not an empty folder; choose another")
    with reporting_write_errors(out):
        make_directory(out.parent)
        with replacing_directory(out) as new:
            try:
                yield new
            except SafetensorError as error:  # the library's word for a full disk
                raise OSError(one_line(error)) from None
            plain = new.stat().st_mode & 0o666
            for file in new.iterdir():
                file.chmod(plain)  # libraries write some files for their owner only
                with file.open("rb") as written:
                    os.fsync(written.fileno())
            if out.exists():
                out.rmdir()


def card_facts(folder: Path | str, weights: Literal["best", "last"] = "best") -> dict[str, Any]:
    """Return what a run states about its network for the model card: data, recipe, accuracy, budget, licence."""
    run = Run(Path(folder))
    data, result, where = run.data, run.result, run.environment
    recipe = shareable_recipe(run)
    name, dataset = recipe.dataset, DATASETS.get(recipe.dataset)
    right = result.best_test_accuracy if weights == "best" else result.final_test_accuracy
    facts = {
        "title": f"A capsule network for {name}, routed with {recipe.normalization}",
        "metrics": [
            EvalResult(
                task_type="image-classification",
                dataset_type=re.sub(r"[^a-z0-9-]+", "-", name.lower()),
                dataset_name=name,
                metric_type="accuracy",
                metric_value=round(right, 6),
            )
        ],
        "accuracy": f"{percent(right)} of {data.test_images:,} test images",
        "weights": weights,
        "epoch": load_tensors(run.folder / f"{weights}.safetensors")[1]["epoch"],
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
        "fingerprint": run.recipe.fingerprint(),
    }
    return facts | ({"data_licence": dataset.licence, "data_citation": dataset.citation} if dataset else {})


def shareable_recipe(run: Run) -> Recipe:
    """Return a run's recipe without paths: of the user's own images, and of the run that fine-tuning started from."""
    recipe = run.recipe
    changes = {} if recipe.dataset in DATASETS else {"dataset": "the user's own images"}
    if recipe.init_from:
        changes["init_from"] = "another run"
    return recipe.with_changes(**changes)
