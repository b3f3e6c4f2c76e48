"""Chapters on what changes accuracy: routing iterations, normalizations, bounds, and ablations."""

from matplotlib.figure import Figure

from maxmincaps.analysis.measures import best_accuracy, generalization_gap, inactive_by_epoch
from maxmincaps.analysis.runs import RunTable
from maxmincaps.report import curves, run_tables, tables
from maxmincaps.report.items import PageItem, ReportData, settings_except
from maxmincaps.report.table import dataset_title, missing
from maxmincaps.studies.study import title_of
from maxmincaps.studies.table import has_papers_network, how_many, network_in_words

WITH_A_CHAPTER = ("datasets", "mnist-record", "poll", "normalizations", "iterations", "bounds", "overlap")
ROUTING = ("normalization", "iterations", "seed")  # settings in which runs and their uniform controls may differ
PERCENT = (-2.0, 100.0)  # vertical axis of percentages
SEVERAL_RUNS = 2  # with fewer runs than this at a point there is a table and no figure


def iterations(data: ReportData) -> list[PageItem]:
    """Return figures 7 and 8, and the numbers of both."""
    study, found, runs, command = data.of_study("iterations")
    found = [own for table in found if (own := _along_an_axis(table))]
    runs = runs.filter(lambda run: any(run in own for own in found))
    if not found:
        return [data.not_run("figure-7", "Figures 7 and 8", "iterations")]
    lacking = ", ".join(title_of(name) for name in study.datasets if name not in runs.datasets)
    not_run = f" Not run: {lacking}." if lacking else ""
    panels = _iteration_panels(data, found)
    drawn = [*runs, *(run for *_, controls in panels for run in controls)]
    items = []
    for name, title, measure, label in (
        ("figure-7", "Figure 7", best_accuracy, "test accuracy (%)"),
        ("figure-8", "Figure 8", generalization_gap, "training − test accuracy\n(percentage points)"),
    ):
        figure = curves.against_iterations(panels, measure, label)
        caption = f"{title}: {label.replace(chr(10), ' ')}, by iterations."
        table = run_tables.points_of_curves(study, found, f"{name}-in-numbers", caption, "r = ", measure)
        items += [
            data.item(name, figure, command, drawn, not_run=not_run),
            data.item("figure-in-numbers", table, command, runs, name=table.name, title=title),
        ]
    return items


def _along_an_axis(runs: RunTable) -> RunTable:
    """Return the runs of datasets with several numbers of iterations. Other studies share runs with a single one."""
    several = [name for name in runs.datasets if len({run.value for run in runs.where(dataset=name)}) > 1]
    return runs.filter(lambda run: run.recipe.dataset in several)


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
            like = {settings_except(run, *ROUTING) for run in here}
            uniform = data.runs.where(normalization="uniform")
            controls = uniform.filter(lambda run, like=like: settings_except(run, *ROUTING) in like)
            panels.append((dataset_title(here, dataset) + smaller, lines, controls))
    return panels


def _points(runs: RunTable, line: str) -> dict[float, RunTable]:
    """Return the runs of a line at each place of the axis, from left to right."""
    groups = runs.where(line=line).by(lambda run: run.value or 0.0)
    return {value: groups[value] for value in sorted(groups)}


def other_normalizations(data: ReportData) -> list[PageItem]:
    """Return Table 4 and the bounds of Max-Min."""
    study, found, runs, command = data.of_study("normalizations")
    if not runs:
        return [data.not_run("table-4", "Table 4", "normalizations"), *_bounds(data)]
    return [data.item("table-4", tables.table_4(study, found), command, runs, paper_number=True), *_bounds(data)]


def _bounds(data: ReportData) -> list[PageItem]:
    study, found, runs, command = data.of_study("bounds")
    if not found:
        return [data.not_run("bounds", "Bounds and start values", "bounds")]
    caption = "Bounds and start values: best test accuracy (%)."
    table = run_tables.points_of_curves(study, found, "bounds-in-numbers", caption, "", best_accuracy)
    items = [data.item(table.name, table, command, runs)]
    lines = {line.label: _points(found[0], line.label) for line in study.lines}
    if min(len(own) for points in lines.values() for own in points.values()) >= SEVERAL_RUNS:
        panels = [(label, {"max-min": points}) for label, points in lines.items() if points]
        figure = curves.against_bound(panels, best_accuracy, "test accuracy (%)")
        items.insert(0, data.item("bounds", figure, command, found[0]))
    return items


def ablations(data: ReportData) -> list[PageItem]:
    """Return the ablations: a figure where lines have several seeds, and tables of all studies beyond the paper."""
    items = _one_at_a_time(data)
    beyond = [name for name, study in data.studies.items() if not study.borrows and name not in WITH_A_CHAPTER]
    for name in beyond:
        study, found, runs, command = data.of_study(name)
        if not found:
            continue
        file_name = f"{name}-in-numbers" if items and name == items[0].name else name
        table = run_tables.accuracies_of_lines(study, found, file_name)
        items.append(data.item("study-in-numbers", table, command, runs, name=file_name, study=study))
        compared = run_tables.normalizations_compared(study, found, f"{name}-compared")
        if compared.rows:
            items.append(data.item("study-compared", compared, command, runs, name=compared.name, study=study))
        if name == "inactive":
            shown = found[0].complete.filter(lambda run: run.recipe.relu)  # without ReLU all lines are zero
            items.append(data.item("inactive-by-setting", _inactive(shown), command, shown, study=study))
    return items


def _inactive(runs: RunTable) -> Figure:
    """Draw the fraction of inactive capsules by epoch, one panel per dataset and setting."""
    panels = []
    for (dataset, setting), own in runs.by(lambda run: (run.recipe.dataset, run.line.partition(", ")[2])).items():
        lines = own.by(lambda run: run.recipe.normalization).items()
        histories = {name: [inactive_by_epoch(run) for run in one] for name, one in lines}
        panels.append((f"{title_of(dataset)}\n{setting}", histories))
    return curves.by_epoch(panels, "inactive capsules (%)", limits=PERCENT)


def _one_at_a_time(data: ReportData) -> list[PageItem]:
    study, found, *_ = data.of_study("ablations")
    if not found:
        return []
    runs = found[0]
    reference, *others = (line.label for line in study.lines)
    dataset = runs.datasets[0]
    lines = {label: runs.of(dataset, label) for label in (reference, *others)}
    if max(len(lines[label].complete) for label in others) < SEVERAL_RUNS:
        return []
    mean = lines[reference].mean(best_accuracy)
    first = f"{reference}, {mean.mean:.2f} %" if mean else reference
    apart = {
        f"{label}  (n = {how_many(lines[label])})": runs.differences(best_accuracy, label, reference)
        or ("no pair" if lines[label].complete else missing(lines[label]))
        for label in others
    }
    label = "difference in best test accuracy (percentage points)"
    figure = curves.ablations(f"{first}  (n = {how_many(lines[reference])})", [*apart.items()], label)
    return [data.item("ablations", figure, data.study_command(study, runs.scales), runs)]
