"""Tables 1, 2 and 4 and the claims: ours beside the paper's, each number with its budget. (Table 3 is in poll.py.)"""

from collections.abc import Iterable, Sequence

from maxmincaps.analysis.claims import Evidence
from maxmincaps.analysis.compare import complete, interval
from maxmincaps.analysis.measures import best_points, final_points
from maxmincaps.analysis.vote import spread, vote
from maxmincaps.analysis.voters import MODELS, voters
from maxmincaps.report.cells import BEST_NOTE, DAGGER, NONE, SD_NOTE, best_and_final, name_of
from maxmincaps.report.selection import NOT_PAPER, Shown, budgets, mean, missing, title_with_mark
from maxmincaps.report.table import NOT_RUN, Table
from maxmincaps.studies.study import LONG, PAPER_SCALE, PaperValue, title_of
from maxmincaps.studies.table import how_many
from maxmincaps.training.responses import responses
from maxmincaps.training.run import RunSummary

BEST = "best_test_accuracy"
NO_VOTE = "needs three networks"


def table_1(runs: Shown, own: Sequence[Sequence[RunSummary]] = ()) -> Table:
    """Compare the accuracies on each dataset: a line for each normalization.

    `own` are runs beside the study's, those that differ in the seed alone together; each gets a line of its own.
    """
    found = {row.recipe.dataset for row in runs.rows}
    datasets = [name for name in runs.study.datasets if name in found or runs.study.reported(BEST, name, "Max-Min")]
    lines = [
        (title_with_mark(runs.of(dataset, line.label), dataset), line.label, *_accuracies(runs, dataset, line.label))
        for dataset in datasets
        for line in runs.study.lines
    ]
    lines += [
        (
            f"{title_with_mark(rows, rows[0].recipe.dataset)}, own recipe",
            name_of(rows[0]),
            NONE,
            *best_and_final(rows, DAGGER),
        )
        for rows in own
    ]
    return Table(
        name="table-1",
        caption="Table 1. Test accuracy on the paper's datasets (%).",
        columns=("Dataset", "Normalization", "Paper, best", "Ours, best", "Ours, final", "n", "Our budget"),
        rows=tuple(lines),
        notes=_notes(runs, below_paper=runs.below_paper or bool(own)),
        words=("Normalization", "Our budget"),
    )


def table_1_in_short(runs: Shown) -> Table:
    """Give Table 1 at a glance: a line for each of the paper's datasets."""
    lines = [line.label for line in runs.study.lines]
    datasets = [name for name in runs.study.datasets if runs.study.reported(BEST, name, lines[0])]
    return Table(
        name="table-1-in-short",
        caption="Test accuracy (%): the paper's best epoch, and ours, best / final.",
        columns=("Dataset", *(f"{line}, {whose}" for whose in ("paper", "ours") for line in lines), "n", "Our budget"),
        rows=tuple(
            (
                LONG.get(dataset, title_of(dataset)),
                *(_reported(runs.study.reported(BEST, dataset, line)) for line in lines),
                *(_in_short(runs.of(dataset, line)) for line in lines),
                " and ".join(dict.fromkeys(how_many(runs.of(dataset, line)) for line in lines)),
                budgets(row for line in lines for row in runs.of(dataset, line)) or NOT_RUN,
            )
            for dataset in datasets
        ),
        notes=(BEST_NOTE,),
        words=("Our budget",),
    )


def _in_short(rows: Sequence[RunSummary]) -> str:
    both = (mean(rows, measure) for measure in (best_points, final_points))
    return " / ".join(f"{found.mean:.2f}" for found in both if found) or missing(rows)


def table_4(runs: Shown) -> Table:
    """Compare the normalizations on MNIST: a line for each."""
    dataset = runs.study.datasets[0]
    return Table(
        name="table-4",
        caption=f"Table 4. Test accuracy of several normalizations on {title_of(dataset)} (%).",
        columns=("Normalization", "Paper, best", "Ours, best", "Ours, final", "n", "Our budget"),
        rows=tuple((line.label, *_accuracies(runs, dataset, line.label)) for line in runs.study.lines),
        notes=_notes(runs, runs.below_paper),
        words=("Our budget",),
    )


def _accuracies(runs: Shown, dataset: str, line: str) -> tuple[str, ...]:
    """Give the paper's number, and ours."""
    told = runs.study.reported(BEST, dataset, line)
    return _reported(told), *best_and_final(runs.of(dataset, line), _mark(runs, dataset))


def table_2(runs: Shown) -> Table:
    """Compare the test errors of the MNIST record, and of the vote of three networks."""
    dataset = runs.study.datasets[0]
    lines = [line.label for line in runs.study.lines]
    rows = [row for line in lines for row in _error_rows(runs, dataset, line)]
    return Table(
        name="table-2",
        caption="Table 2. Test error on MNIST, with shifts, rotations and relaxed margins (%).",
        columns=("Normalization", "Measure", "Largest", "Smallest", "Mean", "Sd", "n", "Budget"),
        rows=(*rows, *_vote_rows(runs, dataset)),
        notes=(
            *_notes(runs, runs.below_paper),
            "A vote is the majority of three networks with their final weights; ties by summed length."
            + " Triples share networks, so their sd says little." * (len(voters(runs.rows)) > len(MODELS)),
        ),
        words=("Measure", "Budget"),
    )


def _error_rows(runs: Shown, dataset: str, line: str) -> Iterable[tuple[str, ...]]:
    names = ("max", "min", "mean", "sd")
    told = [runs.study.reported(f"{name}_test_error_percent", dataset, line) for name in names]
    first = next((value for value in told if value), None)
    yield line, "the paper's", *(_plain(_value(value), 3) for value in told), _reported_n(first), _paper_budget(runs)
    own = runs.of(dataset, line)
    for words, measure in (("ours, best epoch", best_points), ("ours, final epoch", final_points)):
        errors = [100 - measure(row) for row in complete(own)]
        extremes = _extremes(errors, _mark(runs, dataset), missing(own))
        yield line, words, *extremes, how_many(own), budgets(own) or NOT_RUN


def _vote_rows(runs: Shown, dataset: str) -> Iterable[tuple[str, ...]]:
    told = runs.study.reported("vote_test_error_percent", dataset, "Max-Min")
    yield "Max-Min", "vote of 3, the paper's", NONE, NONE, _plain(_value(told), 3), NONE, "3", _paper_budget(runs)
    own = voters(runs.rows)
    models = {row.recipe.seed: responses(row.folder) for row in own}
    three = [models[seed] for seed in MODELS if seed in models]
    mark, budget = _mark(runs, dataset), budgets(own) or NOT_RUN
    lacking = NO_VOTE if complete(runs.of(dataset, "Max-Min")) else NOT_RUN
    single = f"{vote(three).error_percent:.3f}{mark}" if len(three) == len(MODELS) else lacking
    yield "Max-Min", "vote of 3, ours, seeds 0 to 2", NONE, NONE, single, NONE, f"{len(three)}", budget
    if len(models) > len(MODELS):
        triples = spread(list(models.values()))
        yield (
            "Max-Min",
            "votes of all triples, ours",
            *_extremes(triples, mark),
            f"{len(triples)} of {len(models)} runs",
            budget,
        )


def claims(found: Sequence[Evidence]) -> Table:
    """List the claims that the paper makes in words, each beside what our runs say."""
    return Table(
        name="claims",
        caption="The paper's claims, and what our runs say of them.",
        columns=("Claim", "The paper", "Ours", "Verdict", "Our budget"),
        rows=tuple(
            (claim.sentence, claim.paper, claim.ours, str(claim.verdict), claim.budget or NOT_RUN) for claim in found
        ),
        words=("The paper", "Ours", "Verdict", "Our budget"),
    )


def _notes(runs: Shown, below_paper: bool) -> tuple[str, ...]:
    marked = (
        f"{DAGGER} {NOT_PAPER} (fewer epochs, images or seeds than our scale `{PAPER_SCALE}`, whose epochs are ours "
        "where the paper states none): read it beside the paper's number, not as its equal.",
    ) * below_paper
    regenerated = any(row.regenerated for row in runs.rows)
    made = (
        "Regenerated: made by the authors' procedure with other random choices, and for bMNIST from other photographs, "
        "because the original files could not be reached.",
    ) * regenerated
    return (*marked, *runs.notes, BEST_NOTE, SD_NOTE, *made)


def _mark(runs: Shown, dataset: str) -> str:
    return "" if runs.at_paper(dataset) else DAGGER


def _paper_budget(runs: Shown) -> str:
    return ", ".join(f"{budget.epochs} epochs" for budget in runs.study.scales.get(PAPER_SCALE, ()))


def _value(told: PaperValue | None) -> float | None:
    return None if told is None else told.value


def _reported(value: PaperValue | None) -> str:
    if value is None:
        return NONE
    return f"{value.value:.2f}" + (f" ± {value.sd:.2f}" if value.sd is not None else "")


def _reported_n(value: PaperValue | None) -> str:
    return NONE if value is None or value.n is None else f"{value.n}"


def _extremes(values: Sequence[float], mark: str, otherwise: str = NOT_RUN) -> tuple[str, ...]:
    found = interval(values)
    if found is None:
        return (otherwise,) * 4
    return tuple(
        _plain(value, 3) + (mark if value is not None else "")
        for value in (max(values), min(values), found.mean, found.sd)
    )


def _plain(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:.{digits}f}"
