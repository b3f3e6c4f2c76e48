"""The tables of the report. Where the paper has a number it stands beside ours; each number of ours has its budget.

Tables take a list of run tables, one for each size of network, so that results of both sizes stand beside each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from maxmincaps.analysis.claims import Evidence
from maxmincaps.analysis.measures import (
    best_accuracy,
    final_accuracy,
    final_inactive,
    training_accuracy,
    validation_accuracy,
)
from maxmincaps.analysis.responses import class_scores
from maxmincaps.analysis.runs import Measure, RunTable, interval
from maxmincaps.analysis.vote import spread, vote
from maxmincaps.analysis.voters import MODELS, voters
from maxmincaps.report.items import changed_settings, settings_except
from maxmincaps.report.style import line_style
from maxmincaps.report.table import (
    BEST_NOTE,
    DAGGER,
    NONE,
    NOT_PAPER,
    NOT_RUN,
    SD_NOTE,
    Table,
    best_and_final,
    budgets,
    dataset_title,
    missing,
    with_interval,
    with_sd,
)
from maxmincaps.studies.study import LONG, PAPER_SCALE, PaperValue, Study, title_of
from maxmincaps.studies.table import how_many
from maxmincaps.training.responses import Responses, responses
from maxmincaps.training.run import RunSummary

BEST = "best_test_accuracy"
COMPARED_LINES = ("Softmax", "Max-Min", "Uniform (control)")
"""Labels of the lines whose differences are shown."""
NO_VOTE = "needs three networks"
REGENERATED_NOTE = (
    "Regenerated: made by the authors' procedure with other random choices, and for bMNIST from other photographs, "
    "because the original files could not be reached."
)
Tables = Sequence[RunTable]
"""The runs of one study, one table for each size of network; the paper's size first."""


def table_1(study: Study, tables: Tables, own: Sequence[RunTable] = ()) -> Table:
    """Return Table 1: test accuracy on each dataset, one line per normalization.

    Args:
        study: The study of Table 1.
        tables: Its runs.
        own: Runs outside the study, those that differ in the seed alone together.
    """
    run_on = {dataset for runs in tables for dataset in runs.datasets}
    datasets = [name for name in study.datasets if name in run_on or study.reported(BEST, name, "Max-Min")]
    lines = [line for dataset in datasets for line in _lines(study, tables, dataset)]
    lines += [
        (
            f"{dataset_title(runs, runs[0].recipe.dataset)}, own recipe",
            name_of(runs[0]),
            NONE,
            *best_and_final(runs, DAGGER),
        )
        for runs in own
    ]
    return Table(
        name="table-1",
        caption="Table 1. Test accuracy on the paper's datasets (%).",
        columns=("Dataset", "Normalization", "Paper, best", "Ours, best", "Ours, final", "n", "Our budget"),
        rows=tuple(lines),
        notes=_notes(tables, below_paper=_is_below(tables) or bool(own)),
        words=("Normalization", "Our budget"),
    )


def _lines(study: Study, tables: Tables, dataset: str) -> Iterable[tuple[str, ...]]:
    """Return the lines of one dataset, those of the paper's network first."""
    for runs in [own for own in tables if dataset in own.datasets] or [RunTable((), study)]:
        for label in dict.fromkeys(line.label for line in study.lines):
            own = runs.of(dataset, label)
            told = study.reported(BEST, dataset, label)
            if own or told:
                yield dataset_title(own, dataset), label, _reported(told), *best_and_final(own, _mark(runs, dataset))


def table_1_in_short(study: Study, tables: Tables) -> Table:
    """Return Table 1 with one line per dataset and size of network."""
    reported = [name for name in study.datasets if study.reported(BEST, name, "Max-Min")]
    in_paper = [line.label for line in study.lines if study.reported(BEST, reported[0], line.label)] if reported else []
    ours = [
        line.label
        for line in study.lines
        if line.label in in_paper or any(runs.where(line=line.label) for runs in tables)
    ]
    rows = []
    for dataset in reported:
        for runs in [own for own in tables if dataset in own.datasets] or [RunTable((), study)]:
            here = runs.where(dataset=dataset)
            rows.append(
                (
                    LONG.get(dataset, title_of(dataset)),
                    *(_reported(study.reported(BEST, dataset, line)) for line in in_paper),
                    *(_in_short(runs.of(dataset, line)) for line in ours),
                    " and ".join(dict.fromkeys(how_many(runs.of(dataset, line)) for line in ours)),
                    budgets(here) or NOT_RUN,
                )
            )
    return Table(
        name="table-1-in-short",
        caption="Test accuracy (%): the paper's best epoch, and ours, best / final.",
        columns=(
            "Dataset",
            *(f"{line}, paper" for line in in_paper),
            *(f"{line}, ours" for line in ours),
            "n",
            "Our budget",
        ),
        rows=tuple(rows),
        notes=(BEST_NOTE, SD_NOTE),
        words=("Our budget",),
    )


def _in_short(runs: RunTable) -> str:
    both = (runs.mean(measure) for measure in (best_accuracy, final_accuracy))
    return " / ".join(with_sd(found) for found in both if found) or missing(runs)


def table_4(study: Study, tables: Tables) -> Table:
    """Return Table 4: test accuracy of each normalization."""
    dataset = study.datasets[0]
    lines = tuple(line[1:] for line in _lines(study, tables, dataset))
    return Table(
        name="table-4",
        caption=f"Table 4. Test accuracy of several normalizations on {title_of(dataset)} (%).",
        columns=("Normalization", "Paper, best", "Ours, best", "Ours, final", "n", "Our budget"),
        rows=lines,
        notes=_notes(tables, _is_below(tables)),
        words=("Our budget",),
    )


def table_2(study: Study, tables: Tables) -> Table:
    """Return Table 2: test errors under the MNIST record recipe, and of the majority vote of three networks."""
    dataset = study.datasets[0]
    rows: list[tuple[str, ...]] = []
    for line in study.lines:
        rows.append(_paper_errors(study, dataset, line.label))
        for runs in tables or [RunTable((), study)]:
            rows += _our_errors(runs, dataset, line.label)
    told = study.reported("vote_test_error_percent", dataset, "Max-Min")
    paper_vote = _decimal(told.value if told else None)
    rows.append(("Max-Min", "vote of 3, the paper's", NONE, NONE, paper_vote, NONE, "3", _paper_budget(study)))
    for runs in tables or [RunTable((), study)]:
        rows += _vote_rows(runs, dataset)
    shared = any(len(voters(runs)) > len(MODELS) for runs in tables)
    return Table(
        name="table-2",
        caption="Table 2. Test error on MNIST, with shifts, rotations and relaxed margins (%).",
        columns=("Normalization", "Measure", "Largest", "Smallest", "Mean", "Sd", "n", "Budget"),
        rows=tuple(rows),
        notes=(
            *_notes(tables, _is_below(tables)),
            "A vote is the majority vote of three networks with their final weights; ties are broken by summed length."
            + " Triples share networks, so their standard deviation says little." * shared,
        ),
        words=("Measure", "Budget"),
    )


def _paper_errors(study: Study, dataset: str, line: str) -> tuple[str, ...]:
    names = ("max", "min", "mean", "sd")
    told = [study.reported(f"{name}_test_error_percent", dataset, line) for name in names]
    first = next((value for value in told if value), None)
    n = NONE if first is None or first.n is None else f"{first.n}"
    return line, "the paper's", *(_decimal(one.value if one else None) for one in told), n, _paper_budget(study)


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
    lacking = NO_VOTE if runs.of(dataset, "Max-Min").complete else NOT_RUN
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
        columns=(
            "Claim",
            "The paper",
            "Ours (mean, 95 % interval, n)",
            "Smallest detectable",
            "Verdict",
            "Our budget",
        ),
        rows=tuple(
            (
                one.claim.sentence,
                one.claim.paper,
                one.finding.ours + (f". Other size of network: {one.other.ours}" if one.other else ""),
                one.finding.detectable or NONE,
                one.summary,
                one.budget or NOT_RUN,
            )
            for one in found
        ),
        words=("The paper", "Ours (mean, 95 % interval, n)", "Smallest detectable", "Verdict", "Our budget"),
    )


def accuracies_of_lines(study: Study, tables: Tables, name: str) -> Table:
    """Return the accuracies of every line of a study that is not in the paper."""
    several = len(study.datasets) > 1
    validated = any(run.recipe.validation for runs in tables for run in runs)
    rows = []
    for dataset in study.datasets:
        for runs in [own for own in tables if dataset in own.datasets] or [RunTable((), study)] * (not several):
            for line in dict.fromkeys(line.label for line in study.lines):
                own = runs.of(dataset, line)
                if not own and several:
                    continue
                best, final, n, budget = best_and_final(own)
                validation = (with_sd(own.mean(validation_accuracy), otherwise=NONE),) * validated
                inactive = with_sd(own.mean(final_inactive), otherwise=NONE)
                title = (dataset_title(own, dataset),) * several
                rows.append((*title, line, best, final, *validation, inactive, n, budget))
    return Table(
        name=name,
        caption=f"{study.title}. Test accuracy (%), and inactive capsules after the last epoch (%).",
        columns=(
            *(("Dataset",) * several),
            "Line",
            "Best",
            "Final",
            *(("Validation",) * validated),
            "Inactive",
            "n",
            "Budget",
        ),
        rows=tuple(rows),
        notes=(BEST_NOTE, SD_NOTE),
        words=("Line", "Budget"),
    )


def normalizations_compared(study: Study, tables: Tables, name: str) -> Table:
    """Return the difference between normalizations for every setting of a study whose lines are `Softmax, setting`.

    Differences are means over matched pairs, with their 95 % interval; of validation accuracies if there are any.
    """
    settings = dict.fromkeys(line.label.partition(", ")[2] for line in study.lines if ", " in line.label)
    validated = any(run.recipe.validation for runs in tables for run in runs)
    measure = validation_accuracy if validated else best_accuracy
    rows = []
    for dataset, runs, setting in product(study.datasets, tables, settings):
        lines = [f"{normalization}, {setting}" for normalization in COMPARED_LINES]
        own = runs.filter(lambda run, dataset=dataset, lines=lines: run.recipe.dataset == dataset and run.line in lines)
        if not own.complete:
            continue
        means = (with_sd(own.where(line=line).mean(measure), otherwise=NONE) for line in lines)
        apart = (
            with_interval(interval(own.differences(measure, first, second)))
            for first, second in ((lines[1], lines[0]), (lines[1], lines[2]), (lines[0], lines[2]))
        )
        rows.append((dataset_title(own, dataset), setting, *means, *apart, budgets(own)))
    return Table(
        name=name,
        caption=f"{study.title}. {'Validation' if validated else 'Best test'} accuracy (%), and differences of matched "
        "pairs (percentage points).",
        columns=(
            "Dataset",
            "Setting",
            *COMPARED_LINES,
            "Max-Min − Softmax",
            "Max-Min − Uniform",
            "Softmax − Uniform",
            "Budget",
        ),
        rows=tuple(rows),
        notes=(BEST_NOTE, f"{SD_NOTE} Differences have their 95 % interval where n is 3 or more."),
        words=("Setting", "Budget"),
    )


def points_of_curves(study: Study, tables: Tables, name: str, caption: str, axis: str, measure: Measure) -> Table:
    """Return the points of a study's curves: one row per curve, one column per value that has runs."""
    values = sorted({run.value for runs in tables for run in runs if run.value is not None})
    labels = dict.fromkeys(line.label for line in study.lines)
    rows = []
    for dataset, runs, label in product(study.datasets, tables, labels):
        points = [runs.of(dataset, label, value) for value in values]
        every = runs.where(dataset=dataset, line=label)
        if every:
            cells = (with_sd(own.mean(measure), otherwise=missing(own)) for own in points)
            n = " or ".join(dict.fromkeys(how_many(own) for own in points if own))
            rows.append((dataset_title(every, dataset), label, *cells, n, budgets(every)))
    return Table(
        name=name,
        caption=caption,
        columns=("Dataset", "Line", *(f"{axis}{value:g}" for value in values), "n", "Our budget"),
        rows=tuple(rows),
        notes=(SD_NOTE,),
        words=("Line", "Our budget"),
    )


def all_runs(runs: RunTable) -> Table:
    """Return every run of the folder; runs that differ in the seed alone share a row."""
    groups = runs.by(lambda run: settings_except(run, "seed")).values()
    ordered = sorted(groups, key=lambda own: _order(own[0]))
    return Table(
        name="all-runs",
        caption="Every run of this folder: test accuracy (%), and training accuracy with the final weights.",
        columns=("Dataset", "Normalization", "Differs in", "Best", "Final", "Training", "n", "Budget"),
        rows=tuple(
            (
                dataset_title(own, own[0].recipe.dataset),
                name_of(own[0]),
                _differences(own[0]) or NONE,
                *(
                    with_sd(own.mean(measure), otherwise=missing(own))
                    for measure in (best_accuracy, final_accuracy, training_accuracy)
                ),
                how_many(own),
                budgets(own),
            )
            for own in ordered
        ),
        notes=(BEST_NOTE, SD_NOTE),
        words=("Normalization", "Differs in", "Budget"),
    )


def scores_by_class(networks: Mapping[str, Responses]) -> Table:
    """Return precision, recall and F1 score of each class, for one or more networks on the same test images."""
    found = {title: class_scores(one) for title, one in networks.items()}
    names, scores = next(iter(networks.values())).classes, next(iter(found.values()))
    parts = ("precision", "recall", "f1")
    several = len(found) > 1
    return Table(
        name="class-scores",
        caption="Precision, recall and F1 score of each class on the test set (%).",
        columns=(
            "Class",
            "Images",
            *(f"{title}, {part}" if several else part.capitalize() for title in found for part in parts),
        ),
        rows=tuple(
            (
                name,
                f"{scores[label].images:,}",
                *(_percent(getattr(own[label], part)) for own in found.values() for part in parts),
            )
            for label, name in enumerate(names)
        ),
        notes=(
            "Final weights. Precision: correct among images predicted as the class. Recall: correct among its images.",
        ),
    )


def name_of(run: RunSummary) -> str:
    """Return normalization and number of iterations of a run."""
    return f"{line_style(run.recipe.normalization).label}, r = {run.recipe.iterations}"


def _order(run: RunSummary) -> tuple[Any, ...]:
    return run.recipe.dataset, run.recipe.iterations, run.recipe.normalization, settings_except(run, "seed")


def _differences(run: RunSummary) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in changed_settings(run).items() if name != "iterations")


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "×".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _notes(tables: Tables, below_paper: bool) -> tuple[str, ...]:
    marked = (
        f"{DAGGER} {NOT_PAPER} (fewer epochs, images or seeds than our scale `{PAPER_SCALE}`, whose epochs are ours "
        "where the paper states none, or a smaller network): read it beside the paper's number, not as its equal.",
    ) * below_paper
    regenerated = (REGENERATED_NOTE,) * any(run.regenerated for runs in tables for run in runs)
    return (*marked, *(note for runs in tables for note in runs.notes), BEST_NOTE, SD_NOTE, *regenerated)


def _is_below(tables: Tables) -> bool:
    return any(not runs.at_paper(dataset) for runs in tables for dataset in runs.datasets)


def _mark(runs: RunTable, dataset: str) -> str:
    return "" if runs.at_paper(dataset) else DAGGER


def _paper_budget(study: Study) -> str:
    return ", ".join(f"{budget.epochs} epochs" for budget in study.scales.get(PAPER_SCALE, ()))


def _reported(value: PaperValue | None) -> str:
    if value is None:
        return NONE
    return f"{value.value:.2f}" + (f" ± {value.sd:.2f}" if value.sd is not None else "")


def _extremes(values: Sequence[float], mark: str, otherwise: str = NOT_RUN) -> tuple[str, ...]:
    found = interval(values)
    if found is None:
        return (otherwise,) * 4
    numbers = (max(values), min(values), found.mean, found.sd)
    return tuple(_decimal(value) + (mark if value is not None else "") for value in numbers)


def _decimal(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.2f}"
