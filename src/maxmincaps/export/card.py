"""Write a run's network as a folder for the hub, with a model card."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import EvalResult
from safetensors import SafetensorError

from maxmincaps.data.catalog import DATASETS
from maxmincaps.errors import InputError, one_line
from maxmincaps.export.hub import CONFIG
from maxmincaps.files import make_directory, replace_directory, reporting_write_errors, staging_directory
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network, load_tensors
from maxmincaps.training.predict import PREPROCESSING, Preprocessing
from maxmincaps.training.run import Run
from maxmincaps.wording import percent, pluralize


def save_for_hub(folder: Path | str, out: Path | str, weights: Literal["best", "last"] = "best") -> Path:
    """Write config.json, model.safetensors and a model card, which `CapsNet.from_pretrained` reads.

    Args:
        folder: The run folder.
        out: The folder to create.
        weights: Weights of the best epoch or of the last one.
    """
    network, facts = load_network(folder, weights), card_facts(folder, weights)
    with new_directory(out) as staged:
        network.save_pretrained(staged, model_card_kwargs=facts)
        _describe_inputs(staged, Run(Path(folder)))
    return Path(out)


def _describe_inputs(staged: Path, run: Run) -> None:
    """Add the class names to config.json, and write the preprocessing beside it."""
    config, names = staged / CONFIG, run.data.classes
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: label for label, name in enumerate(names)}}
    settings = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**settings, **labels}, indent=2) + "\n", encoding="utf-8")
    preprocessing = Preprocessing.of(run, shareable_recipe(run).dataset)
    (staged / PREPROCESSING).write_text(preprocessing.to_json() + "\n", encoding="utf-8")


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
        with staging_directory(out) as staging:
            new = staging / "new"
            new.mkdir()
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
            replace_directory(new, out, staging)


def card_facts(folder: Path | str, weights: Literal["best", "last"] = "best") -> dict[str, Any]:
    """Return what a run states about its network for the model card: data, recipe, accuracy, budget, licence."""
    run = Run(Path(folder))
    data, result, where = run.data, run.result, run.environment
    recipe = shareable_recipe(run)
    name, dataset = recipe.dataset, DATASETS.get(recipe.dataset)
    accuracy = result.best_test_accuracy if weights == "best" else result.final_test_accuracy
    facts = {
        "title": f"A capsule network for {name}, routed with {recipe.normalization}",
        "metrics": [
            EvalResult(
                task_type="image-classification",
                dataset_type=re.sub(r"[^a-z0-9-]+", "-", name.lower()),
                dataset_name=name,
                metric_type="accuracy",
                metric_value=round(accuracy, 6),
            )
        ],
        "accuracy": f"{percent(accuracy)} of {data.test_images:,} test images",
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
