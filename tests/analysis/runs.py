"""Runs made by hand, so that the result of an analysis is known."""

from dataclasses import replace

import torch

from maxmincaps.analysis.claims import evaluate_claims
from maxmincaps.recipe import Recipe
from maxmincaps.studies import STUDIES
from maxmincaps.training.checkpoint import save_tensors
from maxmincaps.training.run import Run, RunSummary
from maxmincaps.training.schema import RunData, RunResult


def make_data(dataset="mnist", classes=10, **changes):
    shape = (3, 24, 24) if dataset == "cifar10" else (1, 28, 28)
    sizes = {"train_images": 60_000, "test_images": 10_000, "test_images_per_epoch": 10_000}
    names = tuple(str(number) for number in range(classes))
    return RunData(
        **{"name": dataset, "regenerated": False, "classes": names, "image_shape": shape, **sizes, **changes}
    )


def make_run(folder, recipe: Recipe, best: float = 0.9, train: float = 1.0, **changes) -> RunSummary:
    """A complete run with a test accuracy of our choice, without any file."""
    outcome = RunResult(
        best_test_accuracy=best,
        best_epoch=1,
        best_chosen_by="test",
        final_test_accuracy=best,
        train_accuracy=train,
        best_running_train_accuracy=train,
        epochs=recipe.epochs,
        seconds=1.0,
    )
    run = RunSummary(
        folder / recipe.fingerprint(), recipe, "complete", recipe.epochs, outcome, make_data(recipe.dataset)
    )
    return replace(run, **changes)


def write_run(folder, recipe: Recipe, best: float, train: float = 1.0) -> RunSummary:
    """The same with its files."""
    made = make_run(folder, recipe, best, train)
    run = Run(made.folder)
    run.folder.mkdir(parents=True, exist_ok=True)
    run.write("recipe.json", recipe.to_json())
    run.write("result.json", made.result)
    run.write("data.json", made.data)
    return run.summary()


def make_study(folder, name, scale, accuracy, train=lambda entry: 1.0, seeds=None, make=make_run):
    """Every run of a study, with the accuracy in percent that `accuracy` returns for it."""
    return {
        (entry.line.label, entry.line.value, entry.recipe.dataset, entry.recipe.seed): make(
            folder, entry.recipe, accuracy(entry) / 100, train(entry)
        )
        for entry in STUDIES[name].entries(scale, seeds)
    }


def diverge(runs, *keys):
    """Turn these runs of a study into diverged ones."""
    for key in keys:
        runs[key] = replace(runs[key], status="diverged", outcome=None)


def write_lengths(folder, lengths, labels):
    folder.mkdir(parents=True, exist_ok=True)
    lengths = torch.as_tensor(lengths).float()
    tensors = {"lengths": lengths.half(), "predictions": lengths.argmax(1).to(torch.int16)}
    save_tensors(folder / "lengths.safetensors", {**tensors, "labels": torch.as_tensor(labels).to(torch.int16)})
    Run(folder).write("data.json", make_data(classes=lengths.shape[1], test_images=len(labels)))


def write_trace(folder, logits, couplings, label=0):
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {"logits": logits, "couplings": couplings, "label": torch.tensor([label])}
    save_tensors(folder / "trace.safetensors", tensors)


class Evaluated(dict):
    """What the runs say about each claim, evaluated when it is asked for."""

    def __init__(self, runs):
        self.runs = list(runs)

    def __missing__(self, name):
        [self[name]] = evaluate_claims(self.runs, [name])
        return self[name]


by_name = Evaluated


def as_the_paper(entry):
    """The accuracy of a run of Table 1 that agrees with the paper's, a little higher or lower in each seed."""
    value = STUDIES["datasets"].reported("best_test_accuracy", entry.recipe.dataset, entry.line.label)
    return value.value + 0.001 * entry.recipe.seed * (1 if entry.line.label == "Max-Min" else -1)
