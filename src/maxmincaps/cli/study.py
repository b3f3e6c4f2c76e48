"""`maxmincaps study`: run and report the paper's tables and figures, or a user's own study file."""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from maxmincaps.cli.terminal import console, percent, styled, table, write_csv
from maxmincaps.errors import InputError, check_name
from maxmincaps.recipe import Recipe
from maxmincaps.studies import STUDIES, find_study
from maxmincaps.studies.progress import LaunchObserver, Outcome
from maxmincaps.studies.progress import Progress as GridProgress
from maxmincaps.studies.study import DEFAULT_SCALE, Entry, Study, parse_only, select, unique

if TYPE_CHECKING:
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
        "last scale of a study file that has no such scale."
    ),
]
Only = Annotated[str, Parameter(help="Only some runs, such as dataset=mnist,seed=0; the same name twice means either.")]
Seeds = Annotated[int | None, Parameter(help="Seeds 0 to N − 1, instead of as many as the scale has.")]
Out = Annotated[Path, Parameter(help="The folder of the records. All studies share one, and with it their runs.")]


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
        console.say(styled((study.name, "bold"), f" ({study.title})\n\n{study.about}"))
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
    """Show which runs of a study are done, and what they came to."""
    from maxmincaps.studies.table import budget_in_words, deduplicate, read

    reading = read(out)
    by_print = {row.fingerprint: row for row in deduplicate(reading.rows)}
    scale = _scale(name, scale)
    shown = table(
        f"Runs in {out}, scale {scale}", "study", "line", "dataset", "#seed", "state", "#best", "#final", "cost"
    )
    for study in _with_scale(name, scale):
        for entry in select(study.entries(scale, seeds), parse_only(only)):
            recipe, row = entry.recipe, by_print.get(entry.recipe.fingerprint())
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
        console.say(f"skipped: {note}")


def run(
    name: Name,
    *,
    scale: Scale = None,
    only: Only = "",
    seeds: Seeds = None,
    workers: int = 1,
    threads: int | None = None,
    cluster: str | None = None,
    out: Out = Path("runs"),
    finished_in: Path | None = None,
    yes: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train what a study still lacks. Stop it at any time and call it again: it goes on where it was.

    Parameters
    ----------
    workers: int
        Processes of this machine that train at the same time, its cores divided among them. 1: this one.
    threads: int
        CPU threads of each run. Default: this machine's cores divided by --workers; on a cluster, the worker's own.
    cluster: str
        Address of a Dask scheduler (`dask scheduler`, `dask worker ADDRESS --nthreads 1` on machines that share --out).
    finished_in: Path
        A further folder, such as results, whose finished runs are not trained again.
    yes: bool
        Start without asking.
    """
    from maxmincaps.studies.executors import threads_for
    from maxmincaps.studies.launch import launch, plan

    for option, count in (("workers", workers), ("threads", threads), ("seeds", seeds)):
        if count is not None and count < 1:
            raise InputError(f"--{option}: expected at least 1, found {count}")
    scale = _scale(name, scale)
    entries = [entry for study in _with_scale(name, scale) for entry in study.entries(scale, seeds)]
    recipes = unique(entry.recipe for entry in select(entries, parse_only(only)))
    if not entries:
        raise InputError(f"study {name} needs no runs")
    if not recipes:
        raise InputError(f"study {name}: no run fits --only {only}; {_what_there_is(entries, parse_only(only))}")
    if finished_in:
        from maxmincaps.studies.table import read

        finished = {row.fingerprint for row in read(finished_in).rows if row.status != "unfinished"}
        recipes = [recipe for recipe in recipes if recipe.fingerprint() not in finished]
    # Where a run is trained is no part of what it is, so the record is the same.
    wanted = threads or (None if cluster or workers == 1 else threads_for(workers))
    recipes = [recipe.with_changes(threads=recipe.threads or wanted) for recipe in recipes]
    work = plan(recipes, out)
    missing = [work.recipes[run] for run in work.missing]
    # Runs side by side share the cores, so all of them take as long as one after the other with every core.
    timed = missing if workers == 1 and not cluster else [recipe.with_changes(threads=None) for recipe in missing]
    cost = _announce(f"study {name}, scale {scale}", recipes, timed, out)
    if not missing or not (yes or _agreed()):
        return
    with _executor(workers, cluster) as executor, _Screen() as screen:
        try:
            outcomes = launch(missing, out, executor, observer=screen, weights=cost.seconds)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped, nothing is lost; the same command goes on") from None
    failed = {run: outcome for run, outcome in outcomes.items() if outcome.status == "failed"}
    if failed:
        raise InputError(
            f"{len(failed)} of {len(outcomes)} runs failed, the first: {next(iter(failed.values())).message}"
        )


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
    from maxmincaps.analysis.lines import line_results
    from maxmincaps.studies.table import read, study_rows

    rows = read(out).rows
    scale = _scale(name, scale)
    found = [
        line
        for study in _with_scale(name, scale)
        for line in line_results(study_rows(study, scale, rows, seeds), (study.borrows or study).lines[0].label)
    ]
    if not found:
        raise InputError(f"{out}: no finished run of study {name} at scale {scale}; `maxmincaps study run` trains them")
    cells = [line.cells() for line in found]
    if csv:
        write_csv(csv, cells)
        console.say(f"{csv}: {len(cells)} rows")
        return
    shown = table(f"Runs in {out}, scale {scale}: accuracies in percent, mean ± sd over n runs", *_numbers(cells[0]))
    for line in cells:
        shown.add_row(*line.values())
    console.print(shown)


def collect(name: Name, *, source: Out = Path("runs"), out: Path = Path("results")) -> None:
    """Copy the finished runs of a study that OUT does not have yet, small enough to commit: without weights.

    A copy has the settings, curves and results of its run, and compressed what the study's figures are drawn from.

    Parameters
    ----------
    out: Path
        The folder of the copies. Each is in a folder of its study.
    """
    from maxmincaps.studies.collect import collect as collect_runs

    copies = [copy for study in _studies(name) for copy in collect_runs(study, source, out, STUDIES.values())]
    for copy in copies:
        size = sum(path.stat().st_size for path in copy.folder.iterdir())
        console.say(f"{copy.folder}  {size / 1000:.0f} kB")
    console.say(f"{len(copies)} runs copied to {out}")


def _numbers(columns: Iterable[str]) -> list[str]:
    words = ("study", "dataset", "line")
    return [name if name in words else f"#{name}" for name in columns]


def _what_there_is(entries: list[Entry], only: dict[str, tuple[str, ...]]) -> str:
    """Say what could have been asked for instead of the first name that no run has."""
    for name, values in only.items():
        if not select(entries, {name: values}):
            there = ", ".join(dict.fromkeys(repr(entry.get(name)) for entry in entries))
            return f"its lines are {there}" if name == "line" else f"its {name} is one of {there}"
    return "it has runs with each of these, and none with all of them"


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


def _announce(title: str, recipes: list[Recipe], missing: list[Recipe], out: Path) -> "Cost":
    """Say what there is to do and what it costs on this machine, before it starts."""
    from maxmincaps.studies.cost import cost

    if missing:
        console.print("measuring this machine's speed …")
    found = cost(missing, out)
    runs = f"{len(missing)} of {len(recipes)} runs missing" if missing else f"all {len(recipes)} runs are there"
    console.print(styled((title, "bold"), f": {runs} in {out}"))
    if missing:
        rates = sorted({speed.training for speed in found.speeds.values()})
        rate = f"{rates[0]:.0f}" + (f" to {rates[-1]:.0f}" if len(rates) > 1 else "")
        threads = {recipe.threads for recipe in missing}
        cores = "all cores" if threads == {None} else f"CPU threads: {', '.join(str(n or 'all') for n in threads)}"
        console.say(f"about {found.hours:.2g} hours on this machine ({rate} images/s in training, {cores})")
    return found


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise InputError("nobody is here to be asked; add --yes to start")
    try:
        return console.input("start? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        return False


@contextmanager
def _executor(workers: int, address: str | None) -> Iterator[Executor | None]:
    from maxmincaps.studies.executors import LocalProcesses, cluster

    if address:
        with cluster(address) as executor:
            yield executor
    elif workers > 1:
        with LocalProcesses(workers) as executor:
            yield executor
    else:
        yield None


class _Screen(LaunchObserver):
    """Draws one bar for the whole grid, and a line for each run that ends."""

    def __enter__(self) -> "_Screen":
        self.bar = Progress(
            TextColumn("{task.fields[over]} runs"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}   {task.fields[running]}"),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=1.0, over="…", left="…", running="")
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def progressed(self, progress: GridProgress) -> None:
        left = "…" if progress.left_s is None else str(timedelta(seconds=round(progress.left_s)))
        running = f"{len(progress.running)} running" if progress.running else ""
        over = f"{progress.over} of {progress.runs}"
        self.bar.update(self.task, completed=progress.share, over=over, left=left, running=running)

    def finished(self, name: str, outcome: Outcome) -> None:
        console.say(f"{name}  {outcome.status}  {outcome.message}")

    def retried(self, name: str, reason: str) -> None:
        console.say(f"{name}  goes on elsewhere: {reason}")
