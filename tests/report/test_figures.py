import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from maxmincaps import CapsNet, load
from maxmincaps.analysis.measures import best_accuracy
from maxmincaps.analysis.poll import Question
from maxmincaps.analysis.responses import tuning
from maxmincaps.analysis.runs import RunTable
from maxmincaps.analysis.traces import evolution as histograms_of
from maxmincaps.analysis.traces import trace
from maxmincaps.recipe import Recipe
from maxmincaps.report import curves, mistakes, routing
from maxmincaps.report import responses as response_figures
from maxmincaps.report.architecture import architecture
from maxmincaps.report.poll import human_or_network
from maxmincaps.report.style import LINE_STYLES, footnote, for_page, save, text_colour_on
from maxmincaps.training.responses import responses
from tests.analysis.runs import make_run


def words(figure) -> list[str]:
    """Every text that a figure shows."""
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def lines_of(axes) -> dict:
    """The lines that carry points, by their colour."""
    return {to_hex(line.get_color()): line for line in axes.lines if line.get_marker() not in ("None", None, "_", "|")}


@pytest.fixture(scope="session")
def pair(data):
    return data.networks["mnist-5k"]


@pytest.fixture(scope="session")
def answers(pair):
    return {name: responses(row.folder) for name, row in pair.items()}


def table_of(*percents, diverged=0):
    """Runs with these test accuracies in percent."""
    runs = [make_run(Path("runs"), Recipe(seed=seed), best / 100) for seed, best in enumerate(percents)]
    lost = [make_run(Path("runs"), Recipe(seed=100 + n), status="diverged", outcome=None) for n in range(diverged)]
    return RunTable((*runs, *lost))


def iteration_axes(curves_by_name, control=()):
    panels = [("MNIST", curves_by_name, table_of(*control))]
    (axes,) = curves.against_iterations(panels, best_accuracy, "test accuracy (%)").axes
    return axes


def bound_axes(panels):
    return curves.against_bound(panels, best_accuracy, "test accuracy (%)").axes


@pytest.mark.parametrize(("name", "line", "marker", "strongest"), [("max-min", "-", "^", 2), ("softmax", "--", "o", 0)])
def test_max_min_is_blue_solid_with_triangles_and_softmax_orange_dashed_with_circles(name, line, marker, strongest):
    points = {1: table_of(89.5, 90.5)}
    drawn = lines_of(iteration_axes({"softmax": points, "max-min": points}))[LINE_STYLES[name].colour]
    assert (drawn.get_linestyle(), drawn.get_marker()) == (line, marker)
    colour = to_rgb(LINE_STYLES[name].colour)
    assert int(np.argmax(colour)) == strongest  # red leads in orange, blue in blue


def test_a_line_joins_means_and_every_run_is_a_dot_beside_them():
    axes = iteration_axes({"max-min": {1: table_of(90.0), 3: table_of(91.0, 91.5)}})
    assert np.allclose(axes.lines[0].get_xydata(), [[1, 90.0], [3, 91.25]])
    dots = np.concatenate([one.get_offsets() for one in axes.collections])
    assert np.allclose(dots, [[1, 90.0], [3, 91.0], [3, 91.5]])
    assert axes.get_legend() is None, "a single line needs no legend"


def test_the_uniform_control_is_a_level_within_the_frame():
    axes = iteration_axes({"max-min": {1: table_of(90.0), 3: table_of(91.0)}}, control=(94.0, 96.0))
    level = axes.lines[-1]
    assert [*level.get_ydata()] == pytest.approx([95.0, 95.0])
    assert axes.get_ylim()[1] > 96
    assert "Uniform (no routing)" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_place_at_which_runs_diverged_keeps_its_tick_and_breaks_the_line():
    axes = iteration_axes({"max-min": {1: table_of(90.0), 3: table_of(diverged=2), 5: table_of(91.0)}})
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "3", "5"]
    assert np.isnan(axes.lines[0].get_ydata()).tolist() == [False, True, False]
    assert [text.get_text() for text in axes.texts] == ["2 diverged"]


def test_two_curves_that_are_equal_do_not_hide_each_other():
    points = {3: table_of(91.0)}
    first, second = (line.get_xdata()[0] for line in iteration_axes({"softmax": points, "max-min": points}).lines)
    assert 0 < second - first < 0.5


@pytest.mark.parametrize(("values", "widest"), [([98.50, 98.51], 1), ([12.0, 99.9], 100), ([99.9, 99.95], 1)])
def test_an_axis_of_accuracies_is_neither_too_narrow_nor_goes_beyond_all_images(values, widest):
    (axes,) = bound_axes([("q", {"max-min": {1: table_of(*values)}})])
    low, high = axes.get_ylim()
    assert 0.25 <= high - low <= widest
    assert low < min(values) < max(values) < high <= 100


def test_datasets_beyond_the_alphabet_have_panels_with_letters_too():
    panels = [(f"set {number}", {"max-min": [[90.0, 91.0]]}) for number in range(28)]
    titles = {axes.get_title("left") for axes in curves.by_epoch(panels, "accuracy (%)").axes}
    assert {"(a) set 0 (n = 1)", "(z) set 25 (n = 1)", "(bb) set 27 (n = 1)"} <= titles


def test_a_legend_names_softmax_before_max_min_though_the_first_panel_has_max_min_alone():
    both = {name: [[50.0, 60.0]] for name in ("mine", "max-min", "softmax")}
    figure = curves.by_epoch([("MNIST", {"max-min": both["max-min"]}), ("CIFAR10", both)], "accuracy (%)")
    [legend] = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    assert [text.get_text() for text in legend.get_texts()] == ["Softmax", "Max-Min", "mine"]


def test_a_single_run_is_one_line_and_several_have_a_mean():
    one, two = ({"max-min": [[90.0, 91.0]] * count} for count in (1, 2))
    (axes,) = curves.by_epoch([("MNIST", one)], "accuracy (%)").axes
    assert len(axes.lines) == 1
    (axes,) = curves.by_epoch([("MNIST", two)], "accuracy (%)").axes
    assert len(axes.lines) == 3
    assert axes.get_title("left") == "(a) MNIST (n = 2)"


def test_the_largest_effect_lies_inside_the_frame_and_words_stand_for_missing_runs():
    lines = [("another", [0.01]), ("third", "not run"), ("fourth", [-40.0])]
    (axes,) = curves.ablations("default", lines, "points").axes
    low, high = axes.get_xlim()
    assert low < -40 < 0.01 < high
    assert [text.get_text() for text in axes.texts] == ["not run"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["default", "another", "third", "fourth"]


def test_steep_first_epochs_leave_room_for_those_that_differ_little():
    runs = {"max-min": [[40.0, 80.0, 98.0, 98.5]], "softmax": [[50.0, 85.0, 98.2, 98.4]]}
    assert 97.5 < curves.by_epoch([("digits", runs)], "accuracy (%)", skip=2).axes[0].get_ylim()[0] < 98.0
    assert curves.by_epoch([("digits", runs)], "accuracy (%)").axes[0].get_ylim()[0] < 40.0


def test_test_against_training_accuracy_has_a_linear_axis_without_the_first_epochs():
    run = [(30.0, 40.0), (70.0, 80.0), (96.0, 97.0), (98.0, 97.5)]
    (axes,) = curves.against_training([("digits", {"max-min": [run], "softmax": [run]})], "%", skip=2).axes
    low, high = axes.get_xlim()
    assert axes.get_xscale() == "linear"
    assert 94 < low < 96 < 98 < high < 99
    assert axes.lines[0].get_xydata().tolist() == [list(point) for point in run]
    memorised = [(100.0, 97.0)] * 4
    (axes,) = curves.against_training([("digits", {"max-min": [memorised]})], "%", skip=2).axes
    assert axes.get_xlim()[0] < 100 < axes.get_xlim()[1]


def test_settings_that_make_no_difference_do_not_look_as_steep_as_those_that_do():
    flat, steep = ({1: table_of(98.0), 2: table_of(high)} for high in (98.1, 99.5))
    first, second = bound_axes([("q", {"max-min": flat}), ("start value", {"max-min": steep})])
    assert first.get_ylim() == second.get_ylim()
    assert second.get_xlabel() == "start value (log scale)"
    assert second.get_xscale() == "log"


@pytest.mark.parametrize("ground", ["#ffffff", "#000000", "#e8ab60", "#d97706", "#0067a5", "#6ba3cb", "#777777"])
def test_letters_on_a_coloured_ground_can_be_read(ground):
    dark, light = sorted(
        np.array(to_rgb(colour)) ** 2.2 @ (0.2126, 0.7152, 0.0722) for colour in (ground, text_colour_on(ground))
    )
    assert (light + 0.05) / (dark + 0.05) >= 4


@pytest.mark.parametrize(
    ("network", "sizes"),
    [
        (CapsNet, ["28×28×1", "20×20×256", "6×6×32×8\n= 1,152 capsules of 8", "512", "1,024", "784"]),
        (CapsNet.cifar10, ["24×24×3", "16×16×256", "4×4×64×8\n= 1,024 capsules of 8", "512", "1,024", "1,728"]),
        (
            lambda: CapsNet(image_shape=(1, 40, 28), classes=3, conv_channels=8, types=2, part_pose=4, decoder=(16,)),
            ["40×28×1", "32×20×8", "12×6×2×4\n= 144 capsules of 4", "16", "1,120"],
        ),
    ],
)
def test_the_architecture_names_the_networks_own_sizes(network, sizes):
    assert set(sizes) <= set(words(architecture(network())))


def test_routing_has_a_row_per_iteration_and_counts_all_coefficients_of_active_capsules(pair):
    figure = routing.evolution({name: histograms_of(trace(run.folder)) for name, run in pair.items()})
    for part, run in zip(figure.subfigs, pair.values(), strict=True):
        active = trace(run.folder).alive.sum().item()
        assert len(part.axes) == 2 * run.recipe.iterations
        for axes in part.axes:
            assert axes.get_yscale() == "log"
            assert {"10⁰", "10¹"} <= {axes.yaxis.get_major_formatter()(tick) for tick in (1.0, 10.0)}
            (patch,) = axes.patches  # one series: nothing is stacked on a logarithmic axis
            assert patch.get_data().values.sum() == 10 * active


def test_three_capsules_show_their_own_coefficients_and_logits_have_their_own_axes(pair):
    traces = {name: trace(run.folder) for name, run in pair.items()}
    figure = routing.rows([("digits", traces)])
    for part, found in zip(figure.subfigs, traces.values(), strict=True):
        assert len(part.axes[1::2]) == 3
        for coefficients, logits in zip(part.axes[1::2], part.axes[0::2], strict=True):
            child = int(logits.get_ylabel().removeprefix("capsule "))
            drawn = [bar.get_height() for bar in coefficients.patches]
            assert drawn == pytest.approx(found.couplings[-1, child].tolist())
            span = (found.logits[-1, child].max() - found.logits[-1, child].min()).item()
            assert logits.texts[0].get_text() == f"range {span:.2g}"
            low, high = logits.get_ylim()
            assert high - low < 1.3 * span + 1e-9


def test_outputs_draw_the_lengths_of_the_first_image_of_each_class(answers):
    figure = response_figures.outputs([("digits", answers)])
    found = answers["softmax"]
    first = [int((found.labels == label).nonzero()[0]) for label in range(10)]
    drawn = [-bar.get_height() / 0.86 for bar in figure.axes[0].patches]
    assert drawn == pytest.approx(found.lengths[first].flatten().tolist(), abs=1e-6)


def test_tuning_curves_are_a_heat_map_of_the_mean_lengths(answers):
    figure = response_figures.tuning([("digits", answers)])
    drawn = np.asarray(figure.axes[1].images[0].get_array())
    assert drawn == pytest.approx(tuning(answers["max-min"]).numpy())
    assert figure.axes[-1].get_ylabel() == "mean length"


def test_each_misclassified_image_bears_index_prediction_and_true_label(answers):
    found = answers["max-min"]
    images = load("mnist-5k", "test").images
    figure = mistakes.misclassified(found, images)
    wrong = found.wrong[: mistakes.MOST_SHOWN].tolist()
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [f"#{i}\n{int(found.predictions[i])} (true {int(found.labels[i])})" for i in wrong]
    assert (np.asarray(figure.axes[0].images[0].get_array()) == images[wrong[0], 0].numpy()).all()


def test_a_network_without_errors_has_an_empty_grid_that_says_so(answers):
    found = answers["max-min"]
    perfect = type(found)(found.lengths, found.labels, found.labels, found.classes)
    figure = mistakes.misclassified(perfect, load("mnist-5k", "test").images)
    assert "no image was misclassified" in words(figure)


def test_the_confusion_matrix_counts_every_image(answers):
    figure = mistakes.confusion(answers["max-min"])
    assert sum(int(text.get_text()) for text in figure.axes[0].texts) == len(answers["max-min"].labels)


def test_people_stand_beside_the_network_class_by_class():
    random = np.random.default_rng(0)
    pixels = random.integers(0, 255, (1, 28, 28), np.uint8)
    question = Question(7, 1, 3, random.random(10), pixels, random.integers(0, 9, 10))
    figure = human_or_network([("a poor image", question)], [str(digit) for digit in range(10)], 3)
    people, network = (container.patches for container in figure.axes[0].containers)
    assert [bar.get_height() for bar in people] == pytest.approx(question.people.tolist())
    assert [bar.get_height() for bar in network] == pytest.approx(question.network.tolist())
    assert any(f"#7, true class 1, {question.counts.sum()} answers" in text for text in words(figure))


def test_drawing_leaves_matplotlibs_settings_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    save(curves.ablations("default", [("another", [-0.1, 0.0, 0.1])], "points"), tmp_path, "ablations")
    assert dict(matplotlib.rcParams) == before


def test_the_same_figure_is_the_same_file(tmp_path):
    for name in ("one", "two"):
        save(curves.ablations("default", [("another", [-0.1, 0.0, 0.1])], "points"), tmp_path / name, "ablations")
    for ending in ("png", "svg"):
        assert (tmp_path / f"one/ablations.{ending}").read_bytes() == (
            tmp_path / f"two/ablations.{ending}"
        ).read_bytes()


def test_on_the_page_no_two_figures_share_a_name(tmp_path):
    figure = curves.ablations("default", [("another", [-0.1, 0.0, 0.1])], "points")
    text = save(figure, tmp_path, "ablations")[1].read_text()
    first, second = (set(re.findall(r'\bid="([^"]+)"', for_page(text, prefix))) for prefix in "ab")
    assert first
    assert not first & second


def test_a_footnote_takes_no_room_from_the_figure(tmp_path):
    figure = curves.ablations("default", [("another", [-0.1, 0.0, 0.1])], "points")
    figure.draw_without_rendering()
    before = figure.axes[0].get_position().height * figure.get_figheight()
    footnote(figure, "3 epochs of 1,000 images — not the paper's budget")
    figure.draw_without_rendering()
    assert figure.axes[0].get_position().height * figure.get_figheight() == pytest.approx(before, rel=0.02)
