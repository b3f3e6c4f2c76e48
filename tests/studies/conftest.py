"""A small grid, trained once, that the tests of this folder compare with."""

import json

import pytest
from safetensors.torch import load_file

from maxmincaps.recipe import Recipe
from maxmincaps.studies.launch import launch
from maxmincaps.training.run import Run, runs_under
from maxmincaps.training.schema import RunResult
from tests.conftest import TINY

TIMES = {"images_per_s", "seconds", "peak_memory_mb"}


def grid(epochs: int = 8) -> list[Recipe]:
    """Four runs of a second or two each; threads are given, as bits depend on them."""
    return [
        Recipe(**{**TINY, "epochs": epochs, "seed": seed, "normalization": normalization})
        for seed in range(2)
        for normalization in ("softmax", "max-min")
    ]


def bits(folder) -> dict[str, object]:
    """Return the metrics of a grid's runs except for times, by the name of the run."""
    found = {}
    for run in runs_under(folder):
        history = [line.model_dump(exclude=TIMES) for line in run.history]
        result = run.result.model_dump(exclude=TIMES)
        tensors = {
            f"{name}/{key}": tensor.numpy().tobytes()
            for name in ("best", "last", "lengths", "trace")
            for key, tensor in load_file(run.folder / f"{name}.safetensors").items()
        }
        found[run.folder.name] = (json.dumps(history), json.dumps(result), tensors)
    return found


def write_run(folder, recipe: Recipe, best: float) -> Run:
    """Write a finished run with a given test accuracy."""
    run = Run(folder / recipe.fingerprint())
    run.folder.mkdir(parents=True)
    run.write("recipe.json", recipe.to_json())
    accuracies = {"best_test_accuracy": best, "final_test_accuracy": best, "train_accuracy": 1.0}
    accuracies |= {"best_running_train_accuracy": 1.0}
    run.write("result.json", RunResult(**accuracies, best_epoch=1, best_chosen_by="test", epochs=1, seconds=1.0))
    return run


@pytest.fixture(scope="session")
def serial(tmp_path_factory):
    """The folder of the grid, trained here, one run after the other."""
    folder = tmp_path_factory.mktemp("serial")
    launch(grid(), folder)
    return folder
