"""Chapters on what changes accuracy: routing iterations, normalizations, bounds, and ablations."""

from maxmincaps.analysis.measures import best_accuracy, generalization_gap, inactive_by_epoch
from maxmincaps.analysis.runs import RunTable
from maxmincaps.report import curves, run_tables, tables
from maxmincaps.report.items import PageItem, ReportData, settings_except
from maxmincaps.report.table import dataset_title, missing
from maxmincaps.studies.study import Study, title_of
from maxmincaps.studies.table import has_papers_network, how_many, network_in_words

IN_THE_PAPER_STUDIES = ("datasets", "mnist-record", "poll", "normalizations", "iterations", "bounds")
PERCENT = (-2.0, 100.0)
"""Vertical axis of percentages."""
SEVERAL_RUNS = 2
"""With fewer runs than this at a point there is a table and no figure."""


def iterations(data: ReportData) -> list[PageItem]:
    """Return figures 7 and 8, and the numbers of both."""
    study, found = data.studies["iterations"], data.by_network("iterations")
    if not found:
        return [data.not_run("figure-7", "Figures 7 and 8", "iterations")]
    runs = [run for own in found for run in own]
    not_run = [title_of(name) for name in study.datasets if all(name not in own.datasets for own in found)]
    ending = (
        f" against the number of routing iterations. {curves.DOTS_ARE_RUNS} One iteration does not route: all "
        "coefficients keep their start value. The uniform control keeps them for any number of iterations; it is drawn "
        "where it was run with the same budget. The paper prints no numbers."
    ) + (f" Not run: {', '.join(not_run)}." if not_run else "")
    figures = (
        ("figure-7", "Figure 7", best_accuracy, "test accuracy (%)", "Best test accuracy"),
        (
            "figure-8",
            "Figure 8",
            generalization_gap,
            "training − test accuracy\n(percentage points)",
            "Training minus test accuracy, both of the final weights (the paper takes each at its own best epoch),",
        ),
    )
    items = []
    command = data.study_command(study, (run.scale for run in runs))
    panels = _iteration_panels(data, found)
    drawn = [*runs, *(run for *_, controls in panels for run in controls)]
    for name, title, measure, label, words in figures:
        figure = curves.against_iterations(panels, measure, label)
        caption = f"{title}: {label.replace(chr(10), ' ')}, by iterations."
        table = run_tables.points_of_curves(study, found, f"{name}-in-numbers", caption, "r = ", measure)
        items += [
            data.item(name, title, words + ending, figure, command, drawn),
            data.item(table.name, f"{title} in numbers", "Mean ± standard deviation.", table, command, runs),
        ]
    return items


def _iteration_panels(data: ReportData, found: list[RunTable]) -> list[tuple[str, curves.Curves, RunTable]]:
    """Return one panel for each dataset and size of network, with the runs of the uniform control beside it."""
    panels: list[tuple[str, curves.Curves, RunTable]] = []
    for runs in found:
        assert runs.study is not None
        names = {line.label: line.settings["normalization"] for line in runs.study.lines}
        for dataset in runs.datasets:
            here = runs.where(dataset=dataset)
            lines = {str(name): _points(here, label) for label, name in names.items()}
            smaller = "" if has_papers_network(here[0]) else f", {network_in_words(here[0])}"
            panels.append((dataset_title(here, dataset) + smaller, lines, _controls(data, here)))
    return panels


def _controls(data: ReportData, runs: RunTable) -> RunTable:
    """Return the runs with uniform coefficients that differ from these in routing and seed alone."""
    apart = ("normalization", "iterations", "seed")
    budgets = {settings_except(run, *apart) for run in runs}
    return data.runs.filter(
        lambda run: run.recipe.normalization == "uniform" and settings_except(run, *apart) in budgets
    )


def _points(runs: RunTable, line: str) -> dict[float, RunTable]:
    """Return the runs of a line at each place of the axis, from left to right."""
    groups = runs.where(line=line).by(lambda run: run.value or 0.0)
    return {value: groups[value] for value in sorted(groups)}


def other_normalizations(data: ReportData) -> list[PageItem]:
    """Return Table 4 and the bounds of Max-Min."""
    study, found = data.studies["normalizations"], data.by_network("normalizations")
    runs = [run for own in found for run in own]
    if not runs:
        return [data.not_run("table-4", "Table 4", "normalizations"), *_bounds(data)]
    words = "Other ways from logits to routing coefficients, the paper's numbers beside ours."
    table, command = tables.table_4(study, found), data.study_command(study, (run.scale for run in runs))
    return [data.item("table-4", "Table 4", words, table, command, runs, paper_number=True), *_bounds(data)]


def _bounds(data: ReportData) -> list[PageItem]:
    title, study, found = "Bounds and start values", data.studies["bounds"], data.by_network("bounds")
    if not found:
        return [data.not_run("bounds", title, "bounds")]
    runs = [run for own in found for run in own]
    command = data.study_command(study, (run.scale for run in runs))
    words = (
        "Best test accuracy of Max-Min for several upper bounds q and several start values of the coefficients. Our "
        "recipe scales W's initialisation and learning rate with 1/q, which compensates for q; so q is also varied "
        "with both fixed at their q = 1 values."
    )
    table = run_tables.points_of_curves(
        study, found, "bounds-in-numbers", f"{title}: best test accuracy (%).", "", best_accuracy
    )
    items = [data.item(table.name, f"{title} in numbers", words, table, command, runs)]
    shown = found[0]
    lines = {line.label: _points(shown, line.label) for line in study.lines}
    if min(len(own) for points in lines.values() for own in points.values()) >= SEVERAL_RUNS:
        panels = [(label, {"max-min": points}) for label, points in lines.items() if points]
        figure = curves.against_bound(panels, best_accuracy, "test accuracy (%)")
        items.insert(0, data.item("bounds", title, f"{words} {curves.DOTS_ARE_RUNS}", figure, command, shown))
    return items


def ablations(data: ReportData) -> list[PageItem]:
    """Return the ablations: a figure where lines have several seeds, and tables of all studies beyond the paper."""
    items = _one_at_a_time(data)
    for name, study in data.studies.items():
        found = data.by_network(name)
        ours = study.borrows is None and name not in IN_THE_PAPER_STUDIES
        if not ours or not found:
            continue
        runs = [run for own in found for run in own]
        file_name = f"{name}-in-numbers" if items and name == items[0].name else name
        command = data.study_command(study, (run.scale for run in runs))
        table = run_tables.accuracies_of_lines(study, found, file_name)
        items.append(data.item(file_name, f"{study.title} in numbers", study.claim, table, command, runs))
        compared = run_tables.normalizations_compared(study, found, f"{name}-compared")
        if compared.rows:
            items.append(data.item(compared.name, f"{study.title}: differences", study.claim, compared, command, runs))
        if name == "inactive":
            items.append(_inactive(data, study, found[0], command))
    return items


def _inactive(data: ReportData, study: Study, runs: RunTable, command: str) -> PageItem:
    """Return the fraction of inactive capsules by epoch, one panel per dataset and setting."""
    groups = runs.complete.by(lambda run: (run.recipe.dataset, run.line.partition(", ")[2]))
    panels = [
        (
            f"{title_of(dataset)}, {setting}",
            {name: [inactive_by_epoch(run) for run in one] for name, one in _by_normalization(own).items()},
        )
        for (dataset, setting), own in groups.items()
    ]
    words = (
        "Percentage of lower-level capsules whose output is zero, after each epoch. Each line is a run; with several "
        "seeds, runs are thin and their mean is thick."
    )
    figure = curves.by_epoch(panels, "inactive capsules (%)", limits=PERCENT)
    return data.item("inactive-by-setting", f"{study.title} by epoch", words, figure, command, runs.complete)


def _by_normalization(runs: RunTable) -> dict[str, RunTable]:
    return runs.by(lambda run: run.recipe.normalization)


def _one_at_a_time(data: ReportData) -> list[PageItem]:
    name = next((name for name in ("ablations", "choices") if name in data.studies), "")
    runs = data.study(name) if name else RunTable()
    if not runs or runs.study is None:
        return []
    reference, *others = (line.label for line in runs.study.lines)
    dataset = runs.datasets[0]
    lines = [(label, runs.of(dataset, label)) for label in others]
    if max(len(own.complete) for _, own in lines) < SEVERAL_RUNS:
        return []
    mean = runs.of(dataset, reference).mean(best_accuracy)
    first = f"{reference}, {mean.mean:.2f} %" if mean else reference
    apart = [
        (
            f"{label}  (n = {how_many(own)})",
            runs.differences(best_accuracy, label, reference) or (missing(own) if not own.complete else "no pair"),
        )
        for label, own in lines
    ]
    figure = curves.ablations(
        f"{first}  (n = {how_many(runs.of(dataset, reference))})",
        apart,
        "difference in best test accuracy (percentage points)",
    )
    words = (
        "Best test accuracy minus that of the default when one setting is changed: a detail that papers leave open, "
        "routing itself (uniform coefficients), or the whole training recipe. Small dots are matched pairs of runs, "
        "diamonds their means."
    )
    return [data.item(name, "Ablations", words, figure, data.study_command(runs.study, runs.scales), runs)]
