"""`maxmincaps study`: run and report the paper's tables and figures, or a user's own study file."""

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from maxmincaps.cli.terminal import console, percent, styled, table, write_csv
from maxmincaps.errors import InputError, check_name
from maxmincaps.recipe import Recipe
from maxmincaps.studies import STUDIES, find_study
from maxmincaps.studies.study import DEFAULT_SCALE, Entry, Study, is_study_file, parse_only, select, unique
from maxmincaps.wording import duration

if TYPE_CHECKING:
    from distributed import Client

    from maxmincaps.studies.cost import Cost

Name = Annotated[
    str,
    Parameter(
        help="A study's name (`maxmincaps study list`), `all`, or the path of your own study file, which ends "
        "in .py and is executed as Python code."
    ),
]
SCALES = list(dict.fromkeys(scale for study in STUDIES.values() for scale in study.scale_names()))
Scale = Annotated[
    str | None,
    Parameter(
        help=f"How much each run may cost, if the study has it: {', '.join(SCALES)}. Default: {DEFAULT_SCALE}, or the "
        "last scale of a study that has no such scale."
    ),
]
Only = Annotated[str, Parameter(help="Only some runs, such as dataset=mnist,seed=0; the same name twice means either.")]
Seeds = Annotated[int | None, Parameter(help="Seeds 0 to N − 1, instead of as many as the scale has.")]
Out = Annotated[Path, Parameter(help="The folder of the runs. All studies share one, and with it their runs.")]


def list_() -> None:
    """List the studies that come with the package."""
    shown = table("Studies", "name", "in the paper", "claim", "runs at each scale")
    for study in STUDIES.values():
        runs = ", ".join(f"{scale} {len(study.grid(scale))}" for scale in study.scale_names())
        shown.add_row(study.name, study.title, study.claim, runs or "none")
    console.print(shown)


def show(name: Name) -> None:
    """Show what a study claims, which runs it has at each scale, and what the paper reports."""
    for study in _studies(name):
        console.print_line(styled((study.name, "bold"), f" ({study.title})\n\n{study.about}"))
        own = study.borrows or study
        shown = table("Scales", "scale", "#runs", "each", "to know")
        for scale in study.scale_names():
            budgets = "\n".join(budget.describe(own.datasets) for budget in own.scales[scale])
            shown.add_row(scale, str(len(study.grid(scale))), budgets, own.notes.get(scale, ""))
        if study.scale_names():
            console.print(shown)
        if study.paper:
            _show_paper(study)


def status(
    name: Name = "all", *, scale: Scale = None, only: Only = "", seeds: Seeds = None, out: Out = Path("runs")
) -> None:
    """Show which runs of a study are finished, and their accuracies."""
    from maxmincaps.studies.table import budget_in_words, deduplicate, read

    reading, scale = read(out), _scale(name, scale)
    by_fingerprint = {row.fingerprint: row for row in deduplicate(reading.rows)}
    columns = ("study", "line", "dataset", "#seed", "state", "#best", "#final", "cost")
    shown = table(f"Runs in {out}, scale {scale}", *columns)
    for study in _with_scale(name, scale):
        for entry in select(study.entries(scale, seeds), parse_only(only)):
            recipe, row = entry.recipe, by_fingerprint.get(entry.recipe.fingerprint())
            state = "missing" if row is None else row.status
            if row is not None and state == "unfinished":
                state = f"epoch {row.epochs_done} of {recipe.epochs}"
            result = row.outcome if row else None
            best = percent(result.best_test_accuracy if result else None)
            final = percent(result.final_test_accuracy if result else None)
            cost = budget_in_words(row) if row and row.images else ""
            shown.add_row(study.name, _label(entry), recipe.dataset, str(recipe.seed), state, best, final, cost)
    console.print(shown)
    for note in reading.notes:
        console.print_line(f"skipped: {note}")


def run(
    name: Name,
    *,
    scale: Scale = None,
    only: Only = "",
    seeds: Seeds = None,
    workers: int = 1,
    threads: int | None = None,
    scheduler: Annotated[str | None, Parameter(name=["--scheduler", "--cluster"])] = None,
    out: Out = Path("runs"),
    finished_in: Path | None = None,
    yes: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train the missing runs of a study. It can be stopped at any time; the same command continues.

    Parameters
    ----------
    workers: int
        Dask worker processes on this machine, which share its cores. 1: train in this process, without Dask.
    threads: int
        CPU threads of each run. Default: this machine's cores divided by --workers; on a cluster, the worker's own.
    scheduler: str
        Address of a Dask scheduler whose workers see --out under the same path. Dask executes code that launcher and
        workers send each other: use a trusted network or TLS (tls://…).
    finished_in: Path
        A further folder, such as results, whose finished runs are not trained again.
    yes: bool
        Start without asking.
    """
    from maxmincaps.cli.launch_progress import LaunchBar
    from maxmincaps.studies.launch import launch
    from maxmincaps.studies.plan import plan

    for option, count in (("workers", workers), ("threads", threads), ("seeds", seeds)):
        if count is not None and count < 1:
            raise InputError(f"--{option}: expected at least 1, found {count}")
    scale = _scale(name, scale)
    recipes = _with_threads(_chosen(name, scale, only, seeds, finished_in), workers, threads, scheduler)
    work = plan(recipes, out)
    missing = [work.recipes[run] for run in work.missing]
    console.print(styled((f"study {name}, scale {scale}", "bold"), f": {_how_many(missing, recipes)} in {out}"))
    if not missing:
        return
    cost = _announce_cost(missing, [out, *([finished_in] if finished_in else [])], 1 if scheduler else workers)
    if not (yes or _confirmed()):
        return
    file = name if is_study_file(name) else None
    with _client(workers, scheduler) as client, LaunchBar() as bar:
        try:
            outcomes = launch(missing, out, client, observer=bar, weights=cost.seconds, study_file=file)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped, nothing is lost; the same command continues") from None
    failed = [outcome.message for outcome in outcomes.values() if outcome.status == "failed"]
    if failed:
        raise InputError(f"{len(failed)} of {len(outcomes)} runs failed, the first: {failed[0]}")


def report(
    name: Name, *, scale: Scale = None, seeds: Seeds = None, out: Out = Path("runs"), csv: Path | None = None
) -> None:
    """Print the accuracies of each line of a study, and its difference from the first line, seed by seed.

    `maxmincaps report` builds the page with all figures and claims of the paper's studies.

    Parameters
    ----------
    csv: Path
        Write the table to this file instead.
    """
    from maxmincaps.analysis.lines import line_cells
    from maxmincaps.studies.table import read, study_rows

    rows, scale = read(out).rows, _scale(name, scale)
    cells = [
        line
        for study in _with_scale(name, scale)
        for line in line_cells(study_rows(study, scale, rows, seeds), (study.borrows or study).lines[0].label)
    ]
    if not cells:
        raise InputError(f"{out}: no finished run of study {name} at scale {scale}; `maxmincaps study run` trains them")
    if csv:
        write_csv(csv, cells)
        console.print_line(f"{csv}: {len(cells)} rows")
        return
    title = f"Runs in {out}, scale {scale}: accuracies in percent, mean ± sd over n runs"
    shown = table(title, *(name if name in ("study", "dataset", "line") else f"#{name}" for name in cells[0]))
    for line in cells:
        shown.add_row(*line.values())
    console.print(shown)


def collect(name: Name, *, source: Out = Path("runs"), out: Path = Path("results")) -> None:
    """Copy the finished runs of a study that OUT does not have yet, small enough to commit: without weights.

    A copy has the settings, curves and results of its run, and the compressed files that the study's figures need.

    Parameters
    ----------
    out: Path
        The folder of the copies, with one subfolder per study.
    """
    from maxmincaps.studies.collect import collect as collect_runs

    copies = [copy for study in _studies(name) for copy in collect_runs(study, source, out, STUDIES.values())]
    for copy in copies:
        size = sum(path.stat().st_size for path in copy.folder.iterdir())
        console.print_line(f"{copy.folder}  {size / 1000:.0f} kB")
    console.print_line(f"{len(copies)} runs copied to {out}")


def _chosen(name: str, scale: str, only: str, seeds: int | None, finished_in: Path | None) -> list[Recipe]:
    """Return the recipes of the runs that a command asks for."""
    entries = [entry for study in _with_scale(name, scale) for entry in study.entries(scale, seeds)]
    recipes = unique(entry.recipe for entry in select(entries, parse_only(only)))
    if not entries:
        raise InputError(f"study {name} needs no runs")
    if not recipes:
        raise InputError(f"study {name}: no run fits --only {only}; {_available(entries, parse_only(only))}")
    if finished_in is None:
        return recipes
    from maxmincaps.studies.table import read

    finished = {row.fingerprint for row in read(finished_in).rows if row.status != "unfinished"}
    return [recipe for recipe in recipes if recipe.fingerprint() not in finished]


def _with_threads(recipes: Iterable[Recipe], workers: int, threads: int | None, scheduler: str | None) -> list[Recipe]:
    """Set the threads of each run. They are no part of a recipe's fingerprint."""
    if threads is None and workers > 1 and not scheduler:
        from maxmincaps.studies.cluster import threads_for

        threads = threads_for(workers)
    return [recipe.with_changes(threads=recipe.threads or threads) for recipe in recipes]


def _how_many(missing: list[Recipe], recipes: list[Recipe]) -> str:
    return f"{len(missing)} of {len(recipes)} runs missing" if missing else f"all {len(recipes)} runs are there"


def _available(entries: list[Entry], only: dict[str, tuple[str, ...]]) -> str:
    """Return the values that the first name of `only` which no run fits could have."""
    for name, values in only.items():
        if not select(entries, {name: values}):
            there = ", ".join(dict.fromkeys(repr(entry.get(name)) for entry in entries))
            return f"its lines are {there}" if name == "line" else f"its {name} is one of {there}"
    return "there are runs with each of these values, but none with all of them"


def _studies(name: str) -> list[Study]:
    return list(STUDIES.values()) if name == "all" else [find_study(name)]


def _scale(name: str, scale: str | None) -> str:
    """Return the scale that was given, or the default scale of the study."""
    return scale or (None if name == "all" else find_study(name).default_scale()) or DEFAULT_SCALE


def _with_scale(name: str, scale: str) -> list[Study]:
    """Return the studies that have this scale. A study that is given by its name must have it."""
    if name != "all":
        study = find_study(name)
        if study.scale_names():
            check_name(scale, study.scale_names(), f"scale of {name}")
        return [study] if study.scale_names() else []
    found = [study for study in STUDIES.values() if scale in study.scale_names()]
    if not found:
        check_name(scale, SCALES, "scale")
    return found


def _label(entry: Entry) -> str:
    return entry.line.label + ("" if entry.line.value is None else f", {entry.line.value:g}")


def _show_paper(study: Study) -> None:
    shown = table("The paper's values", "measure", "dataset", "line", "#value", "#sd", "#n")
    for value in study.paper:
        sd, n = ("" if number is None else f"{number:g}" for number in (value.sd, value.n))
        shown.add_row(value.measure, value.dataset, value.line, f"{value.value:g}", sd, n)
    console.print(shown)


def _announce_cost(missing: list[Recipe], folders: list[Path], workers: int) -> "Cost":
    """Print the estimated time of the missing runs, and what it is estimated from."""
    from maxmincaps.studies.cost import estimate_cost
    from maxmincaps.studies.table import read

    cost = estimate_cost(missing, [row for folder in folders for row in read(folder).rows])
    known = len(cost.from_runs)
    basis = "a few timed steps" if not known else "finished runs"
    if 0 < known < len(missing):
        basis = f"finished runs for {known} of {len(missing)} runs, a few timed steps for the others"
    console.print_line(f"about {duration(3600 * cost.hours / workers)} on this machine (estimated from {basis})")
    return cost


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise InputError("stdin is not a terminal; pass --yes to start without asking")
    try:
        return console.input("start? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        return False


def _client(workers: int, scheduler: str | None) -> "AbstractContextManager[Client | None]":
    if scheduler is None and workers == 1:
        return nullcontext()
    from maxmincaps.studies.cluster import connect, local_cluster

    return connect(scheduler) if scheduler else local_cluster(workers)
