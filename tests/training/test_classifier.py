"""CapsNetClassifier as scikit-learn uses it."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from maxmincaps import CapsNetClassifier, InputError
from maxmincaps.errors import DivergedError

SMALL = {
    "conv_channels": 8,
    "conv_kernel": 3,
    "types": 4,
    "primary_kernel": 3,
    "part_pose": 4,
    "class_pose": 4,
    "decoder": [8],
    "warmup": 5,
}
POINTS = {**SMALL, "conv_kernel": 1, "primary_kernel": 1, "primary_stride": 1}
"""Kernels of one pixel take rows of any length, such as scikit-learn's checks are made of."""


def small(**changes):
    return CapsNetClassifier(**{"settings": SMALL, "epochs": 20, "batch_size": 50, "learning_rate": 0.01, **changes})


@pytest.fixture(scope="module")
def digits():
    pixels, labels = load_digits(return_X_y=True)
    return pixels[:300], labels[:300]


def test_it_learns_in_a_pipeline_and_under_cross_validation(digits):
    pixels, labels = digits
    scores = cross_val_score(make_pipeline(MinMaxScaler(), small(epochs=12)), pixels, labels, cv=2)
    assert scores.min() > 0.5  # chance: 0.1


def test_rows_and_pictures_of_the_same_pixels_give_the_same_answers(digits):
    pixels, labels = digits[0] / 16, digits[1]
    rows = small(epochs=2).fit(pixels, labels)
    pictures = small(epochs=2).fit(pixels.reshape(-1, 8, 8), labels)
    assert np.array_equal(rows.lengths(pixels), pictures.lengths(pixels.reshape(-1, 8, 8)))
    assert np.array_equal(rows.predict(pixels), rows.classes_[rows.predict_proba(pixels).argmax(axis=1)])


def test_weights_that_the_very_last_step_made_infinite_are_no_classifier(digits):
    pixels, labels = digits[0] / 16, digits[1]
    one_step = small(epochs=1, batch_size=300, learning_rate=3e38, settings={**SMALL, "warmup": 0})
    with pytest.raises(DivergedError, match="not finite after the last step"):
        one_step.fit(pixels, labels)


def test_bytes_are_scaled_and_labels_may_be_words(digits):
    pixels, labels = digits
    words = np.array(["odd" if label % 2 else "even" for label in labels])
    as_bytes = (pixels / 16 * 255).round().astype(np.uint8)
    ours = small(epochs=2).fit(as_bytes, words)
    assert np.array_equal(
        ours.lengths(as_bytes),
        small(epochs=2).fit(as_bytes / np.float32(255), words).lengths(as_bytes / np.float32(255)),
    )
    assert set(ours.predict(as_bytes)) <= {"odd", "even"}


def test_the_average_of_the_weights_answers_unless_it_is_turned_off(digits):
    pixels, labels = digits
    plain, averaged = (
        small(epochs=1, settings=SMALL | more, random_state=0).fit(pixels / 16, labels).predict_proba(pixels / 16)
        for more in ({"ema_decay": 0.0}, {})
    )
    assert not np.allclose(plain, averaged)


def test_a_parameter_search_changes_single_settings(digits):
    search = GridSearchCV(
        small(epochs=2), {"settings__class_pose": [2, 4], "iterations": [1]}, cv=2, error_score="raise"
    )
    search.fit(digits[0] / 16, digits[1])
    best = search.best_estimator_
    assert best.network_.digits.weights.shape[-1] == search.best_params_["settings__class_pose"]
    assert best.settings["conv_channels"] == SMALL["conv_channels"]
    assert "class_pose" in SMALL
    assert SMALL["class_pose"] == 4, "the settings of the caller are not changed"
    with pytest.raises(InputError, match="typs"):
        small().set_params(settings__typs=2).fit(*digits)


def test_the_loss_curve_has_a_point_for_each_epoch_and_falls(digits):
    fitted = small(epochs=6).fit(digits[0] / 16, digits[1])
    assert len(fitted.loss_curve_) == fitted.n_iter_ == 6
    assert fitted.loss_curve_[-1] < fitted.loss_curve_[0]


def test_a_training_within_its_warm_up_warns(digits):
    with pytest.warns(ConvergenceWarning, match="6 steps are no more than the 50 of warm-up"):
        small(epochs=1, settings={**SMALL, "warmup": 50}).fit(digits[0] / 16, digits[1])


def test_early_stopping_ends_with_the_weights_of_the_best_epoch(digits):
    pixels, labels = digits[0] / 16, digits[1]
    fitted = small(epochs=40, patience=2, validation_fraction=0.2).fit(pixels, labels)
    best = int(np.argmax(fitted.validation_scores_))
    assert fitted.n_iter_ == len(fitted.validation_scores_) == min(best + 3, 40)
    validation = fitted._validation(np.unique(labels, return_inverse=True)[1])[1]
    assert fitted.score(pixels[validation], labels[validation]) == pytest.approx(fitted.validation_scores_[best])


def test_class_weights_favour_the_heavy_class(digits):
    pixels, labels = digits[0] / 16, digits[1]
    light, heavy = (
        small(epochs=5, class_weight={3: weight} if weight else None).fit(pixels, labels) for weight in (None, 1000.0)
    )
    assert (heavy.predict(pixels) == 3).mean() > 2 * max(0.1, (light.predict(pixels) == 3).mean() / 2)
    assert small(epochs=1, class_weight="balanced").fit(pixels, labels).n_iter_ == 1


def test_a_progress_bar_is_shown_on_request_only(digits, capsys):
    small(epochs=1).fit(*digits)
    assert capsys.readouterr().out == ""
    small(epochs=1, verbose=True).fit(*digits)
    assert "loss" in capsys.readouterr().out


def test_the_random_state_decides_everything(digits):
    fitted = [small(epochs=1, random_state=state).fit(*digits).lengths(digits[0]) for state in (3, 3, 4)]
    assert np.array_equal(fitted[0], fitted[1])
    assert not np.array_equal(fitted[0], fitted[2])


def test_a_clone_has_all_parameters_and_a_wrong_setting_is_reported_by_name(digits):
    ours = small(iterations=2)
    assert clone(ours).get_params() == ours.get_params()
    assert clone(ours).set_params(iterations=1).iterations == 1
    with pytest.raises(InputError, match="no setting of CapsNetClassifier is called 'typs'"):
        small(settings={"typs": 3}).fit(*digits)


@pytest.mark.parametrize("name", ["validation", "keep_checkpoint", "processes", "epochs", "seed"])
def test_a_setting_that_would_change_nothing_is_refused_and_the_right_ones_are_named(digits, name):
    with pytest.raises(InputError, match=f"is called '{name}'; there are .*conv_channels"):
        small(settings=SMALL | {name: 2}).fit(*digits)


def test_a_users_default_device_is_not_where_its_batches_are_drawn(digits):
    torch.set_default_device("meta")
    try:
        fitted = small().fit(*digits)
    finally:
        torch.set_default_device(None)
    assert (fitted.predict(digits[0]) == small().fit(*digits).predict(digits[0])).all()


def test_it_is_trained_on_the_device_that_its_settings_name(digits):
    with pytest.raises(InputError, match="device 'nowhere' cannot be used here"):
        small(settings=SMALL | {"device": "nowhere"}).fit(*digits)


NOT_OURS = {"check_methods_subset_invariance": "single precision: a batch of another size rounds otherwise"}
CHECKS = list(
    estimator_checks_generator(
        small(settings=POINTS, epochs=15), legacy=True, expected_failed_checks=NOT_OURS, mark="skip"
    )
)


def name_of(check):
    function = getattr(check, "func", check)
    words = [str(value) for value in getattr(check, "keywords", {}).values() if isinstance(value, str | bool)]
    return "-".join([function.__name__, *words])


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[name_of(check) for _, check in CHECKS])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_s_own_check(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def indicators(digits):
    """Whether a digit is odd, large, both or neither."""
    _, labels = digits
    return np.stack([labels % 2, labels >= 5], axis=1).astype(int)


def test_an_indicator_matrix_of_labels_is_learned_and_predicted(digits, indicators):
    pixels = digits[0] / 16
    fitted = small(epochs=30).fit(pixels, indicators)
    predicted = fitted.predict(pixels)
    assert {0, 1, 2} == set(indicators.sum(axis=1)), "images with none, one and both"
    assert predicted.shape == indicators.shape
    assert fitted.score(pixels, indicators) == (predicted == indicators).all(axis=1).mean() > 0.8
    assert np.array_equal(fitted.predict_proba(pixels) > 0.5, predicted == 1)
    assert fitted.classes_.tolist() == [0, 1]


def test_a_sparse_indicator_matrix_gives_the_same_classifier(digits, indicators):
    dense, sparse = (small(epochs=1).fit(digits[0] / 16, y) for y in (indicators, csr_array(indicators)))
    assert np.array_equal(dense.lengths(digits[0] / 16), sparse.lengths(digits[0] / 16))


def test_early_stopping_with_several_labels_ends_with_the_weights_of_the_best_epoch(digits, indicators):
    pixels = digits[0] / 16
    fitted = small(epochs=40, patience=2, validation_fraction=0.2).fit(pixels, indicators)
    validation = fitted._validation(indicators)[1]
    assert fitted.score(pixels[validation], indicators[validation]) == pytest.approx(max(fitted.validation_scores_))


def test_class_weights_are_refused_with_several_labels(digits, indicators):
    with pytest.raises(InputError, match="class_weight"):
        small(class_weight="balanced").fit(digits[0] / 16, indicators)
