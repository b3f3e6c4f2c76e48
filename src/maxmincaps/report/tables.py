"""The tables of the report. Where the paper has a number it stands beside ours; each number of ours has its budget.

Tables take a list of run tables, one for each size of network, so that results of both sizes stand beside each other.
"""

from collections.abc import Iterable, Sequence

from maxmincaps.analysis.claims import Evidence
from maxmincaps.analysis.measures import best_accuracy, final_accuracy
from maxmincaps.analysis.runs import MODELS, RunTable, Tables, interval, voters
from maxmincaps.analysis.vote import spread, vote
from maxmincaps.report.run_tables import name_of
from maxmincaps.report.table import (
    BEST_NOTE,
    DAGGER,
    DETECTABLE,
    MARKED_NOTE,
    NONE,
    NOT_PAPER,
    NOT_RUN,
    OURS,
    REGENERATED_NOTE,
    SD_NOTE,
    Table,
    best_and_final,
    budgets,
    dataset_title,
    missing,
    with_sd,
)
from maxmincaps.studies.study import LONG, PAPER_SCALE, PaperValue, Study, title_of
from maxmincaps.studies.table import how_many, network_in_words, relu_in_words
from maxmincaps.training.responses import responses

BEST = "best_test_accuracy"
BUDGET = ("n", "Our budget")  # the last two columns of most tables


def table_1(study: Study, tables: Tables, own: Sequence[RunTable] = ()) -> Table:
    """Return Table 1: test accuracy on each dataset, one line per normalization.

    `own` are runs outside the study; those that differ in the seed alone are one table.
    """
    run_on = {dataset for runs in tables for dataset in runs.datasets}
    lines = [line for dataset in study.datasets if dataset in run_on for line in _lines(study, tables, dataset)]
    for runs in own:
        title = f"{dataset_title(runs, runs[0].recipe.dataset)}, own recipe"
        lines.append((title, name_of(runs[0]), NONE, *best_and_final(runs, DAGGER)))
    lacking = [name for name in study.datasets if name not in run_on and study.reported(BEST, name, "Max-Min")]
    not_run = (f"Not run: {', '.join(map(title_of, lacking))}.",) if lacking else ()
    return Table(
        name="table-1",
        caption="Table 1. Test accuracy on the paper's datasets (%).",
        columns=("Dataset", "Normalization", "Paper, best", "Ours, best", "Ours, final", *BUDGET),
        rows=tuple(lines),
        notes=(*not_run, *_notes(tables, bool(own))),
    )


def _lines(study: Study, tables: Tables, dataset: str) -> Iterable[tuple[str, ...]]:
    """Return the lines of one dataset, those of the paper's network first."""
    for runs in [own for own in tables if dataset in own.datasets] or [RunTable((), study)]:
        for label in dict.fromkeys(line.label for line in study.lines):
            own = runs.of(dataset, label)
            paper = study.reported(BEST, dataset, label)
            if own or paper:
                yield dataset_title(own, dataset), label, _reported(paper), *best_and_final(own, _mark(runs, dataset))


def table_1_in_short(study: Study, tables: Tables) -> Table:
    """Return Table 1 with one line per dataset and size of network, that of the paper's network first."""
    reported = [name for name in study.datasets if study.reported(BEST, name, "Max-Min")]
    labels = [line.label for line in study.lines]
    in_paper = [line for line in labels if study.reported(BEST, reported[0], line)] if reported else []
    ours = [line for line in labels if line in in_paper or any(runs.where(line=line) for runs in tables)]
    rows = []
    for dataset in reported:
        paper = [_reported(study.reported(BEST, dataset, line)) for line in in_paper]
        title = LONG.get(dataset, title_of(dataset))
        for own in [runs for runs in tables if dataset in runs.datasets] or [RunTable((), study)]:
            runs = own.where(dataset=dataset)
            here = [runs.of(dataset, line) for line in ours]
            n = " and ".join(dict.fromkeys(how_many(line) for line in here if line)) or "0"
            budget = budgets(runs, network=False) or NOT_RUN
            rows.append((title, _network(runs), *paper, *map(_in_short, here), n, budget))
    return Table(
        name="table-1-in-short",
        caption="Test accuracy (%): the paper's best epoch, and ours, best / final.",
        columns=(
            *("Dataset", "Network"),
            *(f"{line}, paper" for line in in_paper),
            *(f"{line}, ours" for line in ours),
            *BUDGET,
        ),
        rows=tuple(rows),
        notes=(BEST_NOTE, SD_NOTE),
    )


def _network(runs: RunTable) -> str:
    """Return the size of the network of some runs and whether PrimaryCaps has a ReLU."""
    words = (f"{network_in_words(run).removesuffix(' network')}, {relu_in_words(run)}" for run in runs)
    return ", ".join(dict.fromkeys(words)) or NOT_RUN


def _in_short(runs: RunTable) -> str:
    both = (runs.mean(measure) for measure in (best_accuracy, final_accuracy))
    return " / ".join(with_sd(found) for found in both if found) or missing(runs)


def table_4(study: Study, tables: Tables) -> Table:
    """Return Table 4: test accuracy of each normalization."""
    dataset = study.datasets[0]
    return Table(
        name="table-4",
        caption=f"Table 4. Test accuracy of several normalizations on {title_of(dataset)} (%).",
        columns=("Normalization", "Paper, best", "Ours, best", "Ours, final", *BUDGET),
        rows=tuple(line[1:] for line in _lines(study, tables, dataset)),
        notes=_notes(tables),
    )


def table_2(study: Study, tables: Tables) -> Table:
    """Return Table 2: test errors under the MNIST record recipe, and of the majority vote of three networks."""
    dataset, shown = study.datasets[0], tables or [RunTable((), study)]
    budget = ", ".join(f"{budget.epochs} epochs" for budget in study.scales.get(PAPER_SCALE, ()))
    rows: list[tuple[str, ...]] = []
    for line in dict.fromkeys(line.label for line in study.lines):
        paper = [study.reported(f"{name}_test_error_percent", dataset, line) for name in ("max", "min", "mean", "sd")]
        n = str(paper[2].n or NONE) if paper[2] else NONE
        rows.append((line, "the paper's", *(_decimal(value.value if value else None) for value in paper), n, budget))
        rows += [row for runs in shown for row in _our_errors(runs, dataset, line)]
    voted = study.reported("vote_test_error_percent", dataset, "Max-Min")
    middle = (NONE, NONE, _decimal(voted.value if voted else None), NONE)
    rows.append(("Max-Min", "vote of 3, the paper's", *middle, "3", budget))
    rows += [row for runs in shown for row in _vote_rows(runs, dataset)]
    shared = any(len(voters(runs)) > len(MODELS) for runs in tables)
    return Table(
        name="table-2",
        caption="Table 2. Test error on MNIST, with shifts, rotations and relaxed margins (%).",
        columns=("Normalization", "Measure", "Largest", "Smallest", "Mean", "Sd", "n", "Budget"),
        rows=tuple(rows),
        notes=(
            *_notes(tables),
            "A vote is the majority vote of three networks with their final weights; ties are broken by summed length."
            + " Triples share networks, so their standard deviation says little." * shared,
        ),
    )


def _our_errors(runs: RunTable, dataset: str, line: str) -> Iterable[tuple[str, ...]]:
    own = runs.of(dataset, line)
    for words, measure in (("ours, best epoch", best_accuracy), ("ours, final epoch", final_accuracy)):
        errors = [100 - value for value in own.measured(measure).values()]
        extremes = _extremes(errors, _mark(runs, dataset), missing(own))
        yield line, words, *extremes, how_many(own), budgets(own) or NOT_RUN


def _vote_rows(runs: RunTable, dataset: str) -> Iterable[tuple[str, ...]]:
    own = RunTable(tuple(voters(runs)))
    models = {run.recipe.seed: responses(run.folder) for run in own}
    three = [models[seed] for seed in MODELS if seed in models]
    mark, budget = _mark(runs, dataset), budgets(own) or NOT_RUN
    lacking = "needs three networks" if runs.of(dataset, "Max-Min").complete else NOT_RUN
    single = f"{vote(three).error_percent:.3f}{mark}" if len(three) == len(MODELS) else lacking
    yield "Max-Min", "vote of 3, ours, seeds 0 to 2", NONE, NONE, single, NONE, f"{len(three)}", budget
    if len(models) > len(MODELS):
        triples = spread(list(models.values()))
        n = f"{len(triples)} of {len(models)} runs"
        yield "Max-Min", "votes of all triples, ours", *_extremes(triples, mark), n, budget


def claims(found: Sequence[Evidence]) -> Table:
    """Return the claims of the paper, each beside what our runs say."""
    return Table(
        name="claims",
        caption="The paper's claims, and what our runs say about them.",
        columns=("Claim", "The paper", OURS, DETECTABLE, "Verdict", "Our budget"),
        rows=tuple(
            (
                one.claim.sentence,
                one.claim.paper,
                one.finding.ours + (f". With the {_network(one.other.runs)}: {one.other.ours}" if one.other else ""),
                one.finding.detectable or NONE,
                one.summary,
                one.budget or NOT_RUN,
            )
            for one in found
        ),
    )


def _notes(tables: Tables, others: bool = False) -> tuple[str, ...]:
    """Return the notes below a table; `others` says that it shows runs outside of the study too."""
    below = others or any(_mark(runs, dataset) for runs in tables for dataset in runs.datasets)
    marked = (f"{DAGGER} {NOT_PAPER} {MARKED_NOTE}",) * below
    regenerated = (REGENERATED_NOTE,) * any(run.regenerated for runs in tables for run in runs)
    return (*marked, *(note for runs in tables for note in runs.notes), BEST_NOTE, SD_NOTE, *regenerated)


def _mark(runs: RunTable, dataset: str) -> str:
    return "" if runs.at_paper(dataset) else DAGGER


def _reported(value: PaperValue | None) -> str:
    if value is None:
        return NONE
    return f"{value.value:.2f}" + (f" ± {value.sd:.2f}" if value.sd is not None else "")


def _extremes(values: Sequence[float], mark: str, otherwise: str = NOT_RUN) -> tuple[str, ...]:
    if not (found := interval(values)):
        return (otherwise,) * 4
    numbers = (max(values), min(values), found.mean, found.sd)
    return tuple(_decimal(value) + (mark if value is not None else "") for value in numbers)


def _decimal(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"
