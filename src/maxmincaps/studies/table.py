"""The table of runs: read the runs of a folder, find those of a study, and describe their budgets in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies.study import Study, title_of
from maxmincaps.training.run import RunSummary, runs_under
from maxmincaps.wording import pluralize

_NAMES = ("conv_channels", "conv_kernel", "conv_stride", "primary_kernel", "primary_stride", "padding")
_SIZES = {name: getattr(Recipe(), name) for name in (*_NAMES, "part_pose", "class_pose", "decoder")}  # the paper's
MOST_SEEDS = 100  # larger seeds are a user's own, not further runs of a study


class Reading(NamedTuple):
    """The readable runs below a folder, and one line for each folder that could not be read."""

    rows: list[RunSummary]
    notes: list[str]


def read(folder: Path | str) -> Reading:
    """Read every run below a folder. A run that is damaged or not ours becomes a note."""
    rows, notes = [], []
    for run in runs_under(Path(folder)):
        try:
            rows.append(run.summary())
        except InputError as error:
            notes.append(str(error))
    return Reading(rows, notes)


def deduplicate(rows: Sequence[RunSummary]) -> list[RunSummary]:
    """Return each run once. Of several copies of a run, the one that came furthest is kept."""
    order = ("unfinished", "diverged", "complete")
    furthest = {row.fingerprint: row for row in sorted(rows, key=lambda row: order.index(row.status))}
    return [row for row in rows if row is furthest[row.fingerprint]]


def seeds_among(rows: Iterable[RunSummary]) -> int:
    """Return how many seeds of a study to look for. There may be runs of more seeds than a scale has."""
    return 1 + max((row.recipe.seed for row in rows if row.recipe.seed < MOST_SEEDS), default=0)


def study_rows(study: Study, scale: str, rows: Iterable[RunSummary], seeds: int | None = None) -> list[RunSummary]:
    """Return the finished runs of a study at a scale, each with its `line` and `value`.

    A run that belongs to several lines is returned for each. Diverged runs are included; they have no result. `seeds`
    replaces the number of seeds of the scale.
    """
    found = {row.fingerprint: row for row in deduplicate(list(rows)) if row.status != "unfinished"}
    return [
        found[fingerprint].with_place(study.name, scale, entry.line.label, entry.line.value)
        for entry in study.entries(scale, seeds)
        if (fingerprint := entry.recipe.fingerprint()) in found
    ]


def coverage(study: Study, rows: Iterable[RunSummary]) -> dict[str, tuple[int, int]]:
    """Return, for each scale of a study, how many of its runs are finished, and how many it has."""
    done = {row.fingerprint for row in rows if row.status != "unfinished"}
    grids = {scale: study.grid(scale) for scale in study.scale_names()}
    return {scale: (sum(r.fingerprint() in done for r in grid), len(grid)) for scale, grid in grids.items()}


def shown_rows(study: Study, rows: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the runs of a study that tables, figures and claims use: for each dataset those of one scale.

    The scale is the first one that is complete, else the one with the largest part finished. A scale with a smaller
    network than the paper's is used only if there is no other. Runs of further seeds are included.
    """
    chosen: dict[str, tuple[tuple[bool, float], list[RunSummary]]] = {}
    for scale in study.scale_names():
        found = study_rows(study, scale, rows, seeds_among(rows))
        finished = {row.fingerprint for row in found}
        wanted: dict[str, list[bool]] = {}
        for recipe in study.grid(scale):
            wanted.setdefault(recipe.dataset, []).append(recipe.fingerprint() in finished)
        for dataset, done in wanted.items():
            own = [row for row in found if row.recipe.dataset == dataset]
            rank = any(map(has_papers_network, own)), sum(done) / len(done)
            if own and (dataset not in chosen or rank > chosen[dataset][0]):
                chosen[dataset] = rank, own
    order = (study.borrows or study).datasets
    return [row for dataset in sorted(chosen, key=order.index) for row in chosen[dataset][1]]


def budget_in_words(row: RunSummary, network: bool = True) -> str:
    """Return epochs, images and other limits of a run, as they stand beside every number.

    Args:
        row: The run.
        network: Whether to name a network that is smaller than the paper's, and one without ReLU.
    """
    data = row.data
    words = [f"{pluralize(row.recipe.epochs, 'epoch')} of {data.train_images:,} images"]
    if 0 < data.test_images_per_epoch < data.test_images:
        words.append(f"best epoch by {data.test_images_per_epoch:,} of {data.test_images:,} test images")
    if row.recipe.overlap:
        words.append("in new pairs every epoch")
    if row.recipe.validation:
        words.append(f"best epoch by {row.recipe.validation:,} validation images")
    if network and not has_papers_network(row):
        words.append(network_in_words(row))
    if network and not row.recipe.relu:
        words.append(relu_in_words(row))
    if "bf16" in (row.precisions or ""):
        words.append(f"products in {row.precisions}")
    if row.regenerated:
        words.append("regenerated images")
    if row.outcome and row.outcome.skipped_steps:
        words.append(f"{row.result.skipped_steps:,} of {row.result.steps:,} steps skipped")
    return ", ".join(words)


def budgets_in_words(rows: Iterable[RunSummary]) -> str:
    """Return each budget of some runs once, with the datasets and the number of runs that have it."""
    groups: dict[str, dict[str, RunSummary]] = {}
    for row in rows:  # a run that belongs to several lines of a study is counted once
        groups.setdefault(budget_in_words(row), {})[row.fingerprint] = row
    return "; ".join(
        f"{', '.join(dict.fromkeys(title_of(row.recipe.dataset) for row in own.values()))}: {words} "
        f"(runs: {how_many([*own.values()])})"
        for words, own in groups.items()
    )


def how_many(rows: Sequence[RunSummary]) -> str:
    """Return how many runs are complete, and how many diverged or are unfinished, as text."""
    states = Counter(row.status for row in rows)
    others = ", ".join(f"{states[state]} {state}" for state in ("diverged", "unfinished") if states[state])
    return f"{states['complete']}" + (f" and {others}" if others else "")


def network_in_words(run: RunSummary) -> str:
    """Return the size of a network: the paper's, a quarter of its kernels and capsule types, or another."""
    if has_papers_network(run):
        return "paper's size"
    types, paper = _types(run)
    quarter = (4 * run.recipe.conv_channels, 4 * types) == (_SIZES["conv_channels"], paper)
    return "quarter-size network" if quarter else "not the paper's network"


def relu_in_words(run: RunSummary) -> str:
    """Return whether PrimaryCaps of a run has a ReLU."""
    return "ReLU" if run.recipe.relu else "no ReLU"


def has_papers_network(row: RunSummary) -> bool:
    """Return whether the network of a run has the paper's sizes."""
    types, paper_types = _types(row)
    cropped = row.recipe.dataset != "cifar10" or row.recipe.crop in (None, 24)
    same = all(getattr(row.recipe, name) == size for name, size in _SIZES.items())
    return cropped and types == paper_types and same


def _types(row: RunSummary) -> tuple[int, int]:
    """Return the capsule types of a run, and those of the paper for such images."""
    paper = 32 if row.data.image_shape[0] == 1 else 64
    return row.recipe.types or paper, paper
