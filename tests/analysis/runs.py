"""Records made by hand, so that what an analysis finds in them is known."""

import torch

from maxmincaps.analysis.claims import evidence
from maxmincaps.recipe import Recipe
from maxmincaps.studies import STUDIES
from maxmincaps.studies.table import row_of
from maxmincaps.training.checkpoint import save_tensors
from maxmincaps.training.run import Run


def write_lengths(folder, lengths, labels):
    folder.mkdir(parents=True, exist_ok=True)
    lengths = torch.as_tensor(lengths).float()
    tensors = {"lengths": lengths.half(), "predictions": lengths.argmax(1).to(torch.int16)}
    save_tensors(folder / "lengths.safetensors", {**tensors, "labels": torch.as_tensor(labels).to(torch.int16)})
    classes = [str(number) for number in range(lengths.shape[1])]
    Run(folder).write("data.json", {"classes": classes, "train_images": 60_000, "test_images": len(labels)})


def write_trace(folder, logits, couplings, label=0):
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {"logits": logits, "couplings": couplings, "label": torch.tensor([label])}
    save_tensors(folder / "trace.safetensors", tensors)


def write_run(folder, recipe: Recipe, best: float, train: float = 1.0):
    """Write what a run of a recipe leaves, with a test accuracy of our choice, and give its row."""
    record = Run(folder / recipe.fingerprint())
    record.folder.mkdir(parents=True, exist_ok=True)
    record.write("recipe.json", recipe.to_json())
    accuracies = {"best_test_accuracy": best, "final_test_accuracy": best, "best_running_train_accuracy": train}
    numbers = {"best_epoch": 1, "train_accuracy": train, "train_accuracy_images": 1, "steps": 1, "skipped_steps": 0}
    record.write("result.json", {**accuracies, **numbers, "best_chosen_by": "test", "seconds": 1.0})
    return row_of(record)


def write_study(folder, name, scale, accuracy, train=lambda entry: 1.0, seeds=None):
    """Write a record for every run of a study, with the accuracy in percent that `accuracy` gives it."""
    return {
        (entry.line.label, entry.line.value, entry.recipe.dataset, entry.recipe.seed): write_run(
            folder, entry.recipe, accuracy(entry) / 100, train(entry)
        )
        for entry in STUDIES[name].entries(scale, seeds)
    }


def write_diverged(rows, *keys):
    """Let these runs of a study be without a result."""
    for key in keys:
        rows[key] |= {"status": "diverged", "best_test_accuracy": None, "final_test_accuracy": None}


def by_name(rows):
    """What the runs say of each claim."""
    return {found.name: found for found in evidence(list(rows))}


def as_the_paper(entry):
    """The accuracy of a run of Table 1 that agrees with the paper's, a little higher or lower in each seed."""
    value = STUDIES["datasets"].reported("best_test_accuracy", entry.recipe.dataset, entry.line.label)
    return value.value + 0.001 * entry.recipe.seed * (1 if entry.line.label == "Max-Min" else -1)
