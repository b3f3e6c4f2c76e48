"""What becomes of accuracy when one thing is varied: iterations, the normalization, bounds, choices, the recipe."""

from collections.abc import Callable, Collection, Sequence

from maxmincaps.analysis.compare import complete
from maxmincaps.analysis.measures import best_points, gap_points
from maxmincaps.report import curves, own_tables, tables
from maxmincaps.report.material import Material, Plate, absent, study_command
from maxmincaps.report.selection import Shown, beside_the_first, title_with_mark
from maxmincaps.studies.study import title_of
from maxmincaps.training.run import RunSummary


def iterations(material: Material) -> list[Plate]:
    """Figures 7 and 8, and both in numbers."""
    runs = material.shown("iterations")
    told = (
        ("figure-7", "Figure 7", best_points, "test accuracy (%)", "Best test accuracy"),
        (
            "figure-8",
            "Figure 8",
            gap_points,
            "training − test (points)",
            "Best training accuracy, counted while an epoch trains, less best test accuracy, which is of averaged "
            "weights and may be the higher one,",
        ),
    )
    ending = (
        f" against the number of routing iterations. {curves.RUNS_IN_WORDS} One iteration routes nothing: all "
        "couplings stay at their start, to which W's σ and rate are fitted then. The paper prints no numbers."
    )
    if not runs.rows:
        return [absent(name, title, words + ending, runs.study) for name, title, _, _, words in told]
    there = {row.recipe.dataset for row in runs.rows}
    if missing := [title_of(dataset) for dataset in runs.study.datasets if dataset not in there]:
        ending += f" Not run: {', '.join(missing)}."
    plates = []
    for name, title, measure, axis, words in told:
        figure = curves.against_iterations(_panels(runs, there, measure), axis)
        table = own_tables.along(runs, f"{name}-in-numbers", f"{title}: {axis}, by iterations.", "r = ", measure)
        plates += [
            material.plate(name, title, words + ending, figure, study_command(runs), runs.rows),
            material.table(title, "The same in numbers.", table, runs),
        ]
    return plates


def _panels(
    runs: Shown, datasets: Collection[str], measure: Callable[[RunSummary], float]
) -> list[tuple[str, dict[str, list[curves.Point]]]]:
    """Give a panel for each of the datasets, in the study's order: a curve for each normalization."""
    lines = {line.label: line.settings["normalization"] for line in runs.study.lines}
    values = sorted({line.value for line in runs.study.lines if line.value is not None})
    return [
        (
            title_with_mark([row for row in runs.rows if row.recipe.dataset == dataset], dataset),
            {name: _points(runs, dataset, label, values, measure) for label, name in lines.items()},
        )
        for dataset in runs.study.datasets
        if dataset in datasets
    ]


def _points(
    runs: Shown, dataset: str, label: str, values: Sequence[float], measure: Callable[[RunSummary], float]
) -> list[curves.Point]:
    found = [(value, runs.of(dataset, label, value)) for value in values]
    return [
        curves.Point(value, [measure(row) for row in complete(rows)], sum(row.status == "diverged" for row in rows))
        for value, rows in found
        if rows
    ]


def others(material: Material) -> list[Plate]:
    """Table 4, bounds, choices, and the paper taken literally."""
    names = ("normalizations", "bounds", "ablations", "as-written")
    runs, bounds, choices, literal = (material.shown(name) for name in names)
    words = "Other ways from logits to couplings, the paper's numbers beside ours."
    recipes = "Both normalizations with our default recipe, and with the paper's words taken literally."
    return [
        material.table("Table 4", words, tables.table_4(runs), runs),
        *_bounds(material, bounds),
        *_choices(material, choices),
        material.table(literal.study.title, recipes, own_tables.of_lines(literal, "literal"), literal),
    ]


def _bounds(material: Material, runs: Shown) -> list[Plate]:
    title = "Bounds and start values"
    words = (
        "Best test accuracy of Max-Min against its upper bound q, and against the couplings' start value (log axis). "
        "By our rule W's σ and rate grow as q falls, which leaves q little to change; so q is varied with W as it is "
        f"for q = 1 too. {curves.RUNS_IN_WORDS}"
    )
    if not runs.rows:
        return [absent("bounds", title, words, runs.study)]
    values = sorted({line.value for line in runs.study.lines if line.value is not None})
    (dataset,) = runs.study.datasets
    labels = dict.fromkeys(line.label for line in runs.study.lines)
    panels = [(label, {"max-min": _points(runs, dataset, label, values, best_points)}) for label in labels]
    figure = curves.against_bound(panels, "test accuracy (%)")
    table = own_tables.along(runs, "bounds-in-numbers", f"{title}: best test accuracy (%).", "", best_points)
    return [
        material.plate("bounds", title, words, figure, study_command(runs), runs.rows),
        material.table(title, "The same in numbers.", table, runs),
    ]


def _choices(material: Material, runs: Shown) -> list[Plate]:
    words = (
        "Best test accuracy less that of the default, when one thing is changed: a detail that papers leave open, "
        "routing itself (uniform couplings), or the whole of training (literal recipe: initial values, rates, warm-up "
        f"and averaging). {curves.PAIRS_IN_WORDS}"
    )
    if not runs.rows:
        return [absent("choices", "Choices", words, runs.study)]
    figure = curves.beside(*beside_the_first(runs, best_points), "difference in test accuracy (points)")
    return [
        material.plate("choices", "Choices", words, figure, study_command(runs), runs.rows),
        material.table("Choices", "The same in numbers.", own_tables.of_lines(runs, "choices-in-numbers"), runs),
    ]
