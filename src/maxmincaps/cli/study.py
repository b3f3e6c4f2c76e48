"""`maxmincaps study`: run and report the paper's tables and figures, or a user's own study file."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from maxmincaps.cli.terminal import Count, console, percent, print_table, styled, write_csv
from maxmincaps.errors import InputError, check_name, import_extra
from maxmincaps.recipe import Recipe
from maxmincaps.studies import STUDIES, find_study
from maxmincaps.studies.study import DEFAULT_SCALE, Entry, Study, is_study_file, parse_only, select, unique
from maxmincaps.studies.table import budget_in_words, deduplicate, read, study_rows
from maxmincaps.wording import duration

if TYPE_CHECKING:
    from distributed import Client

    from maxmincaps.studies import launch

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
        help=f"The budget of each run, one of the study's scales: {', '.join(SCALES)}. Default: {DEFAULT_SCALE}, or "
        f"the last scale of a study that has no scale {DEFAULT_SCALE}."
    ),
]
Only = Annotated[
    str,
    Parameter(help="Select runs, such as dataset=mnist,seed=0. The same name twice selects either: seed=0,seed=1."),
]
Seeds = Annotated[Count | None, Parameter(help="Use the seeds 0 to N − 1. Default: as many as the scale has.")]
Out = Annotated[Path, Parameter(help="The folder of the runs. Studies with the same folder share their runs.")]


def list_() -> None:
    """List the studies that come with the package."""
    rows = []
    for study in STUDIES.values():
        runs = ", ".join(f"{scale} {len(study.grid(scale))}" for scale in study.scale_names())
        rows.append((study.name, study.title, study.claim, runs or "none"))
    print_table("Studies", ("name", "in the paper", "claim", "runs at each scale"), rows)


def show(name: Name) -> None:
    """Show what a study claims, which runs it has at each scale, and what the paper reports."""
    for study in _studies(name):
        console.print_line(styled((study.name, "bold"), f" ({study.title})\n\n{study.about}"))
        own, rows = study.borrows or study, []
        for scale in study.scale_names():
            budgets = "\n".join(budget.describe(own.datasets) for budget in own.scales[scale])
            rows.append((scale, len(study.grid(scale)), budgets, own.notes.get(scale, "")))
        if rows:
            print_table("Scales", ("scale", "#runs", "budget of a run", "notes"), rows)
        if study.paper:
            columns = ("measure", "dataset", "line", "#value", "#sd", "#n")
            values = [[getattr(value, column.strip("#")) for column in columns] for value in study.paper]
            rows = [["" if cell is None else cell for cell in row] for row in values]
            print_table("The paper's values", columns, rows)


def status(
    name: Name = "all", *, scale: Scale = None, only: Only = "", seeds: Seeds = None, out: Out = Path("runs")
) -> None:
    """Show which runs of a study are finished, and their accuracies."""
    reading, (studies, scale) = read(out), _find(name, scale)
    by_fingerprint = {row.fingerprint: row for row in deduplicate(reading.rows)}
    rows = []
    for study in studies:
        for entry in select(study.entries(scale, seeds), parse_only(only)):
            recipe, row = entry.recipe, by_fingerprint.get(entry.recipe.fingerprint())
            state = "missing" if row is None else row.status
            if row is not None and state == "unfinished":
                state = f"epoch {row.epochs_done} of {recipe.epochs}"
            result = row.outcome if row else None
            best, final = (result.best_test_accuracy, result.final_test_accuracy) if result else (None, None)
            label = entry.line.label + ("" if entry.line.value is None else f", {entry.line.value:g}")
            cost = budget_in_words(row) if row and row.images else ""
            rows.append((study.name, label, recipe.dataset, recipe.seed, state, percent(best), percent(final), cost))
    columns = ("study", "line", "dataset", "#seed", "state", "#best", "#final", "cost")
    print_table(f"Runs in {out}, scale {scale}", columns, rows)
    for note in reading.notes:
        console.print_line(f"skipped: {note}")


def run(
    name: Name,
    *,
    scale: Scale = None,
    only: Only = "",
    seeds: Seeds = None,
    workers: Count = 1,
    threads: Count | None = None,
    scheduler: Annotated[str | None, Parameter(name=["--scheduler", "--cluster"])] = None,
    out: Out = Path("runs"),
    finished_in: Path | None = None,
    yes: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train the missing runs of a study. It can be stopped at any time; the same command continues.

    Args:
        workers: Dask worker processes on this machine, which share its cores. 1: train in this process, without Dask.
        threads: CPU threads of each run. Default: this machine's cores divided by --workers; on a cluster, the
            worker's own.
        scheduler: Address of a Dask scheduler whose workers see --out under the same path. Dask executes code that
            launcher and workers send each other: use a trusted network or TLS (tls://…).
        finished_in: Another folder, such as results. Runs that are finished there are not trained again.
        yes: Start without asking.
    """
    from maxmincaps.cli import imported_modules
    from maxmincaps.studies.launch import launch, plan

    studies, scale = _find(name, scale)
    if threads is None and workers > 1 and not scheduler:
        threads = max(1, import_extra("cluster", "dask.system").CPU_COUNT // workers)
    # Threads are no part of a recipe's fingerprint.
    chosen = _chosen(name, [entry for study in studies for entry in study.entries(scale, seeds)], only, finished_in)
    recipes = [recipe.with_changes(threads=recipe.threads or threads) for recipe in chosen]
    missing = [run.recipe for run in plan(recipes, out).values() if not run.finished]
    count = f"{len(missing)} of {len(recipes)} runs missing" if missing else f"all {len(recipes)} runs are there"
    console.print(styled((f"study {name}, scale {scale}", "bold"), f": {count} in {out}"))
    if not missing:
        return
    weights = _announce_cost(missing, [out, *([finished_in] if finished_in else [])], 1 if scheduler else workers)
    if not (yes or _confirmed()):
        return
    modules = [*imported_modules, *([str(Path(name).resolve())] if is_study_file(name) else [])]
    with _client(workers, scheduler) as client, _progress_bar() as move:
        try:
            outcomes = launch(
                missing, out, client, on_progress=move, on_finished=_print_outcome, weights=weights, modules=modules
            )
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

    Args:
        csv: Write the table to this file instead.
    """
    from maxmincaps.analysis.lines import line_cells

    rows, (studies, scale) = read(out).rows, _find(name, scale)
    cells = []
    for study in studies:
        cells += line_cells(study_rows(study, scale, rows, seeds), (study.borrows or study).lines[0].label)
    if not cells:
        raise InputError(f"{out}: no finished run of study {name} at scale {scale}; `maxmincaps study run` trains them")
    if csv:
        write_csv(csv, cells)
        console.print_line(f"{csv}: {len(cells)} rows")
        return
    title = f"Runs in {out}, scale {scale}: accuracies in percent, mean ± sd over n runs"
    columns = (name if name in ("study", "dataset", "line") else f"#{name}" for name in cells[0])
    print_table(title, columns, [list(line.values()) for line in cells])


def collect(name: Name, *, source: Out = Path("runs"), out: Path = Path("results")) -> None:
    """Copy the finished runs of a study without their weights, so that the copies are small enough to commit.

    A copy has the settings, curves and results of its run, and the compressed files that the study's figures need. Runs
    that have been copied before are left as they are.

    Args:
        out: The folder of the copies, with one subfolder per study.
    """
    from maxmincaps.studies.collect import collect as collect_runs

    copies = [copy for study in _studies(name) for copy in collect_runs(study, source, out, STUDIES.values())]
    for copy in copies:
        size = sum(path.stat().st_size for path in copy.folder.iterdir())
        console.print_line(f"{copy.folder}  {size / 1000:.0f} kB")
    console.print_line(f"{len(copies)} runs copied to {out}")


def _studies(name: str) -> list[Study]:
    return list(STUDIES.values()) if name == "all" else [find_study(name)]


def _find(name: str, scale: str | None) -> tuple[list[Study], str]:
    """Return the studies that have a scale, and the scale. A study that is given by its name must have it."""
    studies = _studies(name)
    if name == "all":
        scale = check_name(scale or DEFAULT_SCALE, SCALES, "scale")
    elif names := studies[0].scale_names():
        scale = check_name(scale or studies[0].default_scale() or DEFAULT_SCALE, names, f"scale of {name}")
    return [study for study in studies if scale in study.scale_names()], scale or DEFAULT_SCALE


def _chosen(name: str, entries: list[Entry], only: str, finished_in: Path | None) -> list[Recipe]:
    """Return the recipes of the runs that a command asks for."""
    if not entries:
        raise InputError(f"study {name} needs no runs")
    recipes = unique(entry.recipe for entry in select(entries, parse_only(only)))
    if not recipes:
        raise InputError(f"study {name}: no run fits --only {only}; {_available(entries, parse_only(only))}")
    finished = {row.fingerprint for row in read(finished_in).rows if row.status != "unfinished"} if finished_in else ()
    return [recipe for recipe in recipes if recipe.fingerprint() not in finished]


def _available(entries: list[Entry], only: dict[str, tuple[str, ...]]) -> str:
    """Return the values that the first name of `only` which no run fits could have."""
    for name, values in only.items():
        if not select(entries, {name: values}):
            there = ", ".join(dict.fromkeys(repr(entry.get(name)) for entry in entries))
            return f"its lines are {there}" if name == "line" else f"its {name} is one of {there}"
    return "there are runs with each of these values, but none with all of them"


def _announce_cost(missing: list[Recipe], folders: list[Path], workers: int) -> dict[str, float]:
    """Print the estimated time of the missing runs and what it is estimated from; return seconds by fingerprint."""
    from maxmincaps.studies.cost import estimate_cost

    cost = estimate_cost(missing, [row for folder in folders for row in read(folder).rows])
    known = len(cost.from_runs)
    basis = "a few timed steps" if not known else "finished runs"
    if 0 < known < len(missing):
        basis = f"finished runs for {known} of {len(missing)} runs, a few timed steps for the others"
    total = duration(sum(cost.seconds.values()) / workers)
    console.print_line(f"about {total} on this machine (estimated from {basis})")
    return cost.seconds


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise InputError("stdin is not a terminal; pass --yes to start without asking")
    with suppress(EOFError):  # Ctrl-D
        return console.input("start? [y/N] ").strip().lower() in ("y", "yes")
    return False


def _client(workers: int, scheduler: str | None) -> "AbstractContextManager[Client | None]":
    if scheduler is None and workers == 1:
        return nullcontext()
    from maxmincaps.studies.cluster import connect, local_cluster

    return connect(scheduler) if scheduler else local_cluster(workers)


@contextmanager
def _progress_bar() -> "Iterator[Callable[[launch.Progress], None]]":
    """Draw one bar for all runs, and yield the function that moves it."""
    columns = (
        *(TextColumn("{task.fields[finished]} runs"), BarColumn(), TextColumn("{task.percentage:>3.0f} %")),
        *(TimeElapsedColumn(), TextColumn("left {task.fields[left]}   {task.fields[running]}")),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, finished="…", left="…", running="")

        def move(progress: "launch.Progress") -> None:
            left = "…" if progress.remaining_s is None else str(timedelta(seconds=round(progress.remaining_s)))
            running = f"{progress.running} running" if progress.running else ""
            finished = f"{progress.finished} of {progress.runs}"
            bar.update(task, completed=progress.fraction, finished=finished, left=left, running=running)

        yield move


def _print_outcome(name: str, outcome: "launch.Outcome") -> None:
    console.print_line(f"{name}  {outcome.status}  {outcome.message}")
