import re

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from maxmincaps import CapsNet, load
from maxmincaps.analysis.poll import Question
from maxmincaps.analysis.responses import tuning_of
from maxmincaps.analysis.traces import evolution as histograms_of
from maxmincaps.analysis.traces import trace
from maxmincaps.errors import InputError
from maxmincaps.report import curves, mistakes, routing
from maxmincaps.report import responses as response_figures
from maxmincaps.report.architecture import architecture
from maxmincaps.report.poll import human_or_network
from maxmincaps.report.style import LOOKS, footnote, for_page, ink_on, save
from maxmincaps.training.responses import responses


def words(figure) -> list[str]:
    """Every text that a figure shows."""
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def lines_of(axes) -> dict:
    """The lines that carry points, by their colour."""
    return {to_hex(line.get_color()): line for line in axes.lines if line.get_marker() not in ("None", None, "_", "|")}


@pytest.fixture(scope="session")
def pair(material):
    return material.matched_pairs["mnist-5k"]


@pytest.fixture(scope="session")
def answers(pair):
    return {name: responses(row.folder) for name, row in pair.items()}


@pytest.mark.parametrize(("name", "line", "marker", "strongest"), [("max-min", "-", "^", 2), ("softmax", "--", "o", 0)])
def test_max_min_is_blue_solid_with_triangles_and_softmax_orange_dashed_with_circles(name, line, marker, strongest):
    point = curves.Point(1, [89.5, 90.5])
    figure = curves.against_iterations([("MNIST", {"softmax": [point], "max-min": [point]})], "test accuracy (%)")
    drawn = lines_of(figure.axes[0])[LOOKS[name].colour]
    assert (drawn.get_linestyle(), drawn.get_marker()) == (line, marker)
    colour = to_rgb(LOOKS[name].colour)
    assert int(np.argmax(colour)) == strongest  # red leads in orange, blue in blue


def test_the_same_look_holds_in_every_figure_of_curves(answers):
    runs = {name: [[50.0, 60.0]] for name in answers}
    for figure in (curves.by_epoch([("digits", runs)]), response_figures.tuning([("digits", answers)])):
        found = {(line.get_linestyle(), line.get_marker()) for axes in figure.axes for line in axes.lines}
        assert found == {("-", "^"), ("--", "o")}


def test_a_line_joins_means_and_every_run_is_a_dot_beside_them():
    points = [curves.Point(1, [90.0]), curves.Point(3, [91.0, 91.5])]
    (axes,) = curves.against_iterations([("MNIST", {"max-min": points})], "test accuracy (%)").axes
    assert axes.lines[0].get_xydata().tolist() == [[1, 90.0], [3, 91.25]]
    dots = np.concatenate([one.get_offsets() for one in axes.collections])
    assert dots.tolist() == [[1, 90.0], [3, 91.0], [3, 91.5]]
    assert axes.get_legend() is None, "a line that is alone needs no name"


def test_a_place_at_which_runs_diverged_keeps_its_tick_and_breaks_the_line():
    points = [curves.Point(1, [90.0]), curves.Point(3, [], diverged=2), curves.Point(5, [91.0])]
    (axes,) = curves.against_iterations([("MNIST", {"max-min": points})], "test accuracy (%)").axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "3", "5"]
    assert np.isnan(axes.lines[0].get_ydata()).tolist() == [False, True, False]
    assert [text.get_text() for text in axes.texts] == ["2 diverged"]


def test_two_curves_that_are_equal_do_not_hide_each_other():
    points = [curves.Point(3, [91.0])]
    (axes,) = curves.against_iterations([("MNIST", {"softmax": points, "max-min": points})], "%").axes
    first, second = (line.get_xdata()[0] for line in axes.lines)
    assert 0 < second - first < 0.5


@pytest.mark.parametrize(("values", "widest"), [([98.50, 98.51], 1), ([12.0, 99.9], 100), ([99.9, 99.95], 1)])
def test_an_axis_of_accuracies_is_neither_too_narrow_nor_goes_beyond_all_images(values, widest):
    (axes,) = curves.against_bound([("q", {"max-min": [curves.Point(1, values)]})], "test accuracy (%)").axes
    low, high = axes.get_ylim()
    assert 0.25 <= high - low <= widest
    assert low < min(values) < max(values) < high <= 100


def test_a_dataset_without_runs_keeps_its_panel_and_says_so():
    panels = [("MNIST", {"max-min": [curves.Point(3, [91.0])]}), ("CIFAR10", {"max-min": []})]
    figure = curves.against_iterations(panels, "test accuracy (%)")
    assert "not run" in [text.get_text() for text in figure.axes[1].texts]
    assert "not run" not in [text.get_text() for text in figure.axes[0].texts]


def test_datasets_beyond_the_alphabet_have_panels_with_letters_too():
    figure = curves.by_epoch([(f"set {number}", {"max-min": [[90.0, 91.0]]}) for number in range(28)])
    assert {"(a) set 0", "(z) set 25", "(bb) set 27"} <= {axes.get_title("left") for axes in figure.axes}


def test_a_legend_names_softmax_before_max_min_though_the_first_panel_has_max_min_alone():
    both = {name: [[50.0, 60.0]] for name in ("mine", "max-min", "softmax")}
    figure = curves.by_epoch([("MNIST", {"max-min": both["max-min"]}), ("CIFAR10", both)])
    [legend] = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    assert [text.get_text() for text in legend.get_texts()] == ["Softmax", "Max-Min", "mine"]


def test_the_words_of_a_choice_without_runs_are_beside_the_guide_and_a_hundredth_of_a_point_looks_small():
    (axes,) = curves.beside("default", [("another", [0.01]), ("third", "not run"), ("fourth", [-40.0])], "points").axes
    low, high = axes.get_xlim()
    (guide,) = (line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":")
    assert 0.5 <= high - low <= 1, "what lies far below is told, and squeezes nothing"
    assert guide > low + 0.1 * (high - low)
    assert [text.get_text() for text in axes.texts] == ["not run", "-40.00, outside"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["default", "another", "third", "fourth"]


def test_steep_first_epochs_leave_room_for_those_that_differ_little():
    runs = {"max-min": [[40.0, 80.0, 98.0, 98.5]], "softmax": [[50.0, 85.0, 98.2, 98.4]]}
    assert 97.5 < curves.by_epoch([("digits", runs)], steep=2).axes[0].get_ylim()[0] < 98.0
    assert curves.by_epoch([("digits", runs)]).axes[0].get_ylim()[0] < 40.0


def test_test_against_training_accuracy_shows_all_but_the_steep_first_epochs_and_no_more():
    run = [(30.0, 40.0), (70.0, 80.0), (96.0, 97.0), (98.0, 97.5)]
    (axes,) = curves.against_training([("digits", {"max-min": [run], "softmax": [run]})], steep=2).axes
    low, high = axes.get_xlim()
    assert 94 < low < 96 < 98 < high < 99
    assert axes.lines[0].get_xydata().tolist() == [list(point) for point in run]
    learnt_by_heart = [(100.0, 97.0)] * 4
    (axes,) = curves.against_training([("digits", {"max-min": [learnt_by_heart]})], steep=2).axes
    assert axes.get_xlim()[0] < 100 < axes.get_xlim()[1]


def test_the_last_images_that_are_learnt_are_told_apart():
    run = [(percent, 97.0) for percent in (90.0, 99.0, 99.9, 99.98, 100.0)]
    (axes,) = curves.against_training([("digits", {"max-min": [run]})]).axes
    low, high = axes.get_xlim()
    places = axes.transAxes.inverted().transform(axes.transData.transform(run))[:, 0]
    assert low < 90 < 100 < high
    assert min(np.diff(places)) > 0.1
    assert {90, 99, 99.9, 100} <= set(axes.get_xticks())
    little_learnt = [(91.0, 90.0), (96.6, 90.9)]
    (axes,) = curves.against_training([("clothes", {"max-min": [little_learnt]})]).axes
    assert len(axes.get_xticks()) >= 3


def test_settings_that_make_no_difference_do_not_look_as_steep_as_those_that_do():
    flat, steep = ([curves.Point(1, [98.0]), curves.Point(2, [high])] for high in (98.1, 99.5))
    panels = [(name, {"max-min": points}) for name, points in (("q", flat), ("start", steep))]
    first, second = curves.against_bound(panels, "test accuracy (%)").axes
    assert first.get_ylim() == second.get_ylim()


@pytest.mark.parametrize("ground", ["#ffffff", "#000000", "#e8ab60", "#d97706", "#0067a5", "#6ba3cb", "#777777"])
def test_letters_on_a_coloured_ground_can_be_read(ground):
    dark, light = sorted(
        np.array(to_rgb(colour)) ** 2.2 @ (0.2126, 0.7152, 0.0722) for colour in (ground, ink_on(ground))
    )
    assert (light + 0.05) / (dark + 0.05) >= 4


def test_bounds_lie_on_a_logarithmic_axis():
    points = [curves.Point(place, [90.0]) for place in (0.01, 0.1, 1.0)]
    assert curves.against_bound([("q", {"max-min": points})], "test accuracy (%)").axes[0].get_xscale() == "log"


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


def test_routing_has_a_row_an_iteration_and_logarithmic_counts(pair):
    histograms = {name: histograms_of(row.folder) for name, row in pair.items()}
    for column, per_panel in (("true class", 1), ("all", 10)):
        figure = routing.evolution(histograms, column)
        children = trace(pair["softmax"]["folder"]).logits.shape[1]
        for part in figure.subfigs:
            assert len(part.axes) == 2 * pair["softmax"]["iterations"]
            for axes in part.axes:
                assert axes.get_yscale() == "log"
                assert {"10⁰", "10¹"} <= {axes.yaxis.get_major_formatter()(tick) for tick in (1.0, 10.0)}
                every, voting = (patch.get_data().values.sum() for patch in axes.patches)
                assert every == children * per_panel
                assert 0 < voting <= every


def test_routing_has_no_other_columns(pair):
    with pytest.raises(InputError, match="there are true class, all"):
        routing.evolution({"max-min": histograms_of(pair["max-min"]["folder"])}, "some")


def test_three_children_show_their_own_couplings(pair):
    traces = {name: trace(row.folder) for name, row in pair.items()}
    figure = routing.rows([("digits", traces)])
    for part, found in zip(figure.subfigs, traces.values(), strict=True):
        couplings = part.axes[1::2]
        assert len(couplings) == 3
        for axes, label in zip(couplings, part.axes[0::2], strict=True):
            child = int(label.get_ylabel().removeprefix("child "))
            assert [bar.get_height() for bar in axes.patches] == pytest.approx(found.couplings[-1, child].tolist())


def test_outputs_draw_the_lengths_of_the_first_image_of_each_class(answers):
    figure = response_figures.outputs([("digits", answers)])
    found = answers["softmax"]
    first = [int((found.labels == label).nonzero()[0]) for label in range(10)]
    drawn = [-bar.get_height() / 0.86 for bar in figure.axes[0].patches]
    assert drawn == pytest.approx(found.lengths[first].flatten().tolist(), abs=1e-6)


def test_tuning_curves_are_the_mean_lengths_of_each_class(answers):
    figure = response_figures.tuning([("digits", answers)])
    curves_ = [line.get_ydata() for line in figure.axes[1].lines if len(line.get_ydata()) == 10]
    assert np.array(curves_) == pytest.approx(tuning_of(answers["max-min"]).numpy())


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
    save(curves.beside("default", [("another", [-0.1, 0.0, 0.1])], "points"), tmp_path, "choices")
    assert dict(matplotlib.rcParams) == before


def test_the_same_figure_is_the_same_file(tmp_path):
    for name in ("one", "two"):
        save(curves.beside("default", [("another", [-0.1, 0.0, 0.1])], "points"), tmp_path / name, "choices")
    for ending in ("png", "svg"):
        assert (tmp_path / f"one/choices.{ending}").read_bytes() == (tmp_path / f"two/choices.{ending}").read_bytes()


def test_on_the_page_no_two_figures_share_a_name(tmp_path):
    figure = curves.beside("default", [("another", [-0.1, 0.0, 0.1])], "points")
    text = save(figure, tmp_path, "choices")[1].read_text()
    first, second = (set(re.findall(r'\bid="([^"]+)"', for_page(text, prefix))) for prefix in "ab")
    assert first
    assert not first & second


def test_a_footnote_takes_no_room_from_the_figure(tmp_path):
    figure = curves.beside("default", [("another", [-0.1, 0.0, 0.1])], "points")
    figure.draw_without_rendering()
    before = figure.axes[0].get_position().height * figure.get_figheight()
    footnote(figure, "3 epochs of 1,000 images — not the paper's budget")
    figure.draw_without_rendering()
    assert figure.axes[0].get_position().height * figure.get_figheight() == pytest.approx(before, rel=0.02)
