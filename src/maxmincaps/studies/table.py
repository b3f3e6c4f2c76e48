"""The records as a table: every run a row. Files are the truth; DuckDB answers questions about them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies.study import PAPER_SCALE, Study, title_of
from maxmincaps.training.run import RunSummary, runs_under
from maxmincaps.wording import pluralize

MOST_SEEDS = 100
"""Seeds from here on are taken for somebody's own, not for further runs of a study."""


@dataclass(frozen=True)
class Reading:
    """What was found below a folder."""

    rows: list[RunSummary]
    notes: list[str] = field(default_factory=list)
    """One line for each folder that could not be read."""


def read(folder: Path | str) -> Reading:
    """Read every record below a folder; what is half written or not ours becomes a note."""
    rows, notes = [], []
    for record in runs_under(Path(folder)):
        try:
            rows.append(record.summary())
        except InputError as error:
            notes.append(str(error))
    return Reading(rows, notes)


def deduplicate(rows: Sequence[RunSummary]) -> list[RunSummary]:
    """Give each run once: a copy of a record is no second run. The one that came furthest stands for all."""
    order = ("unfinished", "diverged", "complete")
    furthest = {row.fingerprint: row for row in sorted(rows, key=lambda row: order.index(row.status))}
    return [row for row in rows if row is furthest[row.fingerprint]]


def table(folder: Path | str) -> list[RunSummary]:
    """Return the summary of every readable run below a folder."""
    return read(folder).rows


def seeds_among(rows: Iterable[RunSummary]) -> int:
    """Tell how many seeds of a study to look for: nobody is kept from running more of them than a scale has."""
    return 1 + max((row.recipe.seed for row in rows if row.recipe.seed < MOST_SEEDS), default=0)


def study_rows(study: Study, scale: str, rows: Iterable[RunSummary], seeds: int | None = None) -> list[RunSummary]:
    """Give the runs of a study that are over, each with its `line` and `value`; a run may stand on several lines.

    Diverged runs are among them (`status`), without results: a table says how many there were.
    `seeds` asks for more seeds than the scale has.
    """
    found = {row.fingerprint: row for row in deduplicate(list(rows)) if row.status != "unfinished"}
    return [
        found[print_].with_place(study.name, scale, entry.line.label, entry.line.value)
        for entry in study.entries(scale, seeds)
        if (print_ := entry.recipe.fingerprint()) in found
    ]


def coverage(study: Study, rows: Iterable[RunSummary]) -> dict[str, tuple[int, int]]:
    """Tell, for each scale of a study, how many of its runs are over, and how many it has."""
    done = {row.fingerprint for row in rows if row.status != "unfinished"}
    grids = {scale: study.grid(scale) for scale in study.scale_names()}
    return {scale: (sum(r.fingerprint() in done for r in grid), len(grid)) for scale, grid in grids.items()}


def shown_rows(study: Study, rows: Sequence[RunSummary]) -> list[RunSummary]:
    """Give the runs of a study that count: of each dataset those of one scale, as `study_rows` gives them.

    It is the largest scale that is whole, else the one of which most has been run; one with a smaller network than the
    paper's only where there is no other. Seeds beyond its own count too.
    Tables, figures and claims all ask here, so that one page speaks of the same runs everywhere.
    """
    chosen: dict[str, tuple[tuple[bool, float], list[RunSummary]]] = {}
    for scale in study.scale_names():
        found = study_rows(study, scale, rows, seeds_among(rows))
        over = {row.fingerprint for row in found}
        wanted: dict[str, list[bool]] = {}
        for recipe in study.grid(scale):
            wanted.setdefault(recipe.dataset, []).append(recipe.fingerprint() in over)
        for dataset, done in wanted.items():
            own = [row for row in found if row.recipe.dataset == dataset]
            rank = any(map(has_papers_network, own)), sum(done) / len(done)
            if own and (dataset not in chosen or rank > chosen[dataset][0]):
                chosen[dataset] = rank, own
    order = (study.borrows or study).datasets
    return [row for dataset in sorted(chosen, key=order.index) for row in chosen[dataset][1]]


def has_papers_budget(study: Study, rows: Sequence[RunSummary]) -> bool:
    """Tell whether runs, as `study_rows` gives them, are all that the paper has of their lines, with its epochs."""
    if any(row.scale != PAPER_SCALE for row in rows):
        return False
    there = {row.fingerprint for row in rows}
    lines = {(row.recipe.dataset, row.line, row.value) for row in rows}
    wanted = study.entries(PAPER_SCALE) if rows else []
    return not any(
        (entry.recipe.dataset, entry.line.label, entry.line.value) in lines and entry.recipe.fingerprint() not in there
        for entry in wanted
    )


def budget_in_words(row: RunSummary) -> str:
    """Say what a run cost, from its record: it stands beside every number."""
    images = row.data.train_images if row.data.train_images is not None else row.recipe.train_images
    words = [pluralize(row.recipe.epochs, "epoch") + (f" of {images:,} images" if images else "")]
    if (
        row.data.test_images_per_epoch
        and row.data.test_images
        and row.data.test_images_per_epoch < row.data.test_images
    ):
        words.append(f"best epoch by {row.data.test_images_per_epoch:,} of {row.data.test_images:,} test images")
    if row.recipe.validation:
        words.append(f"best epoch by {row.recipe.validation:,} validation images")
    if not has_papers_network(row):
        words.append(network_in_words(row))
    if "bf16" in (row.precisions or ""):
        words.append(f"products in {row.precisions}")
    if row.regenerated:
        words.append("regenerated images")
    if row.outcome and row.outcome.skipped_steps:
        words.append(f"{row.result.skipped_steps:,} of {row.result.steps:,} steps skipped")
    return ", ".join(words)


def budgets_in_words(rows: Iterable[RunSummary]) -> str:
    """Say what some runs cost: each budget once, with the datasets and the number of runs that have it."""
    groups: dict[str, dict[str, RunSummary]] = {}
    for row in rows:  # one that stands on several lines of a study is counted once
        groups.setdefault(budget_in_words(row), {})[row.fingerprint] = row
    return "; ".join(
        f"{', '.join(dict.fromkeys(title_of(row.recipe.dataset) for row in own.values()))}: {words} "
        f"(runs: {how_many([*own.values()])})"
        for words, own in groups.items()
    )


def how_many(rows: Sequence[RunSummary]) -> str:
    """Say how many runs came to a result, and how many diverged or are not over yet."""
    states = Counter(row.status for row in rows)
    others = ", ".join(f"{states[state]} {state}" for state in ("diverged", "unfinished") if states[state])
    return f"{states['complete']}" + (f" and {others}" if others else "")


def network_in_words(run: RunSummary) -> str:
    """Return the size of a network that is not the paper's: a quarter of its kernels and capsule types, or another."""
    paper_types = 32 if run.data.image_shape[0] == 1 else 64
    types = run.recipe.types or paper_types
    quarter = (4 * run.recipe.conv_channels, 4 * types) == (Recipe().conv_channels, paper_types)
    return "quarter-size network" if quarter else "not the paper's network"


def has_papers_network(row: RunSummary) -> bool:
    """Tell whether the network of a run has the paper's sizes."""
    sizes = {"conv_channels", "conv_kernel", "conv_stride", "types", "primary_kernel", "primary_stride", "padding"}
    sizes |= {"part_pose", "class_pose", "decoder"}
    paper = Recipe().model_dump(mode="json", include=sizes)
    shape = row.data.image_shape
    types = 32 if shape and shape[0] == 1 else 64  # what no setting means
    cropped = row.recipe.dataset != "cifar10" or row.recipe.crop in (None, 24)
    ours = row.recipe.model_dump(mode="json", include=sizes)
    return cropped and all(ours[name] == size for name, size in paper.items() if name != "types" or ours[name] != types)
