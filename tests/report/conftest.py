"""Small studies of the paper's form, trained once, with their weights deleted: the report must not need them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from maxmincaps import Recipe, fit
from maxmincaps.analysis.runs import RunTable, study_runs_by_network
from maxmincaps.report.items import ReportData
from maxmincaps.studies import STUDIES
from maxmincaps.studies.study import Budget, unique
from maxmincaps.studies.table import read
from tests.conftest import TINY

NETWORK = {name: TINY[name] for name in ("conv_channels", "types", "part_pose", "class_pose", "decoder")}
QUICK = Budget(epochs=2, train_images=100, test_images=50, changes={**NETWORK, "batch_size": 50, "threads": 1})
BUDGETS = {
    "datasets": (replace(QUICK, seeds=2),),
    "mnist-record": (replace(QUICK, seeds=3, lines=("Max-Min",)), replace(QUICK, lines=("Softmax",))),
    "normalizations": (replace(QUICK, lines=("Max-Min", "Sum")),),
    "iterations": (replace(QUICK, values=(1, 3)),),
    "bounds": (replace(QUICK, values=(0.1, 1.0)),),
    "ablations": (replace(QUICK, lines=("default", "no ReLU")),),
    "as-written": (replace(QUICK, lines=("Softmax, literal recipe", "Max-Min, literal recipe")),),
}


def small_studies(scale="small"):
    """The paper's studies on the embedded digits, with runs of a second; the paper's MNIST numbers stand for them."""
    made = {}
    for name, study in STUDIES.items():
        if name in BUDGETS:
            paper = tuple(replace(value, dataset="mnist-5k") for value in study.paper if value.dataset == "mnist")
            scales = {scale: BUDGETS[name]}
            made[name] = replace(study, datasets=("mnist-5k",), paper=paper, scales=scales, notes={scale: "tiny"})
        elif study.borrows:
            made[name] = replace(study, borrows=made[study.borrows.name])
    return {name: made.get(name, study) for name, study in STUDIES.items()}


@pytest.fixture(scope="session")
def studies():
    return small_studies()


@pytest.fixture(scope="session")
def runs(tmp_path_factory, studies) -> Path:
    folder = tmp_path_factory.mktemp("report") / "runs"
    for recipe in unique(recipe for name in BUDGETS for recipe in studies[name].grid("small")):
        fit(recipe, folder / recipe.fingerprint())
    for weights in [*folder.rglob("best.safetensors"), *folder.rglob("last.safetensors")]:
        weights.unlink()
    return folder


@pytest.fixture(scope="session")
def rows(runs):
    return RunTable(tuple(read(runs).rows))


@pytest.fixture(scope="session")
def data(rows, studies, runs):
    return ReportData(rows, studies, folder=runs)


@pytest.fixture(scope="session")
def of_study(rows, studies):
    """The study, and its runs of each size of network."""
    return lambda name: (studies[name], study_runs_by_network(studies[name], rows))


@pytest.fixture(scope="session")
def own_runs(tmp_path_factory) -> Path:
    """One pair of networks on a user's own colour images, whose class names are words, one of them with HTML."""
    folder = tmp_path_factory.mktemp("own")
    random = np.random.RandomState(0)
    images = random.randint(0, 255, (90, 20, 20, 3), np.uint8)
    labels = np.arange(90) % 3
    np.savez(
        folder / "shapes & <b>.npz", x_train=images[:60], y_train=labels[:60], x_test=images[60:], y_test=labels[60:]
    )
    for normalization in ("softmax", "max-min"):
        settings = {**NETWORK, "dataset": str(folder / "shapes & <b>.npz"), "epochs": 1, "batch_size": 30, "threads": 1}
        settings["seed"] = 2_000_000_000
        fit(Recipe(normalization=normalization, **settings), folder / "runs" / normalization)
    return folder / "runs"
