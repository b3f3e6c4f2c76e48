"""Figures 5, 6 and 9 and the vote, from lengths that are known."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxmincaps.analysis.responses import confusion, misclassified, outputs, shown_images, tuning, tuning_rows
from maxmincaps.analysis.vote import spread, vote
from maxmincaps.errors import InputError
from maxmincaps.training.responses import Responses, responses
from tests.analysis.runs import write_lengths

LENGTHS = [[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.1, 0.8, 0.3], [0.5, 0.25, 1.0]]
LABELS = [0, 1, 2, 2]


@pytest.fixture
def run(tmp_path):
    write_lengths(tmp_path, LENGTHS, LABELS)
    return tmp_path


def model(*predictions, labels, classes=4, sure=1.0):
    """Return responses that predict these classes, each with this length."""
    predicted = torch.tensor(predictions)
    lengths = torch.nn.functional.one_hot(predicted, classes).float() * sure
    return Responses(lengths, predicted, torch.tensor(labels), tuple(map(str, range(classes))))


def test_the_images_shown_are_the_first_of_each_class(run):
    assert shown_images(responses(run)) == [0, 1, 2]
    table = outputs(responses(run))
    assert [(row.image, row.label, row.parent) for row in table][:4] == [
        (0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 1, 0)
    ]  # fmt: skip
    assert [row.length for row in table] == pytest.approx([length for row in LENGTHS[:3] for length in row], abs=1e-3)


def test_an_image_that_is_not_there_is_refused(run):
    with pytest.raises(InputError, match="image: expected 0 to 3, found 4"):
        outputs(responses(run), [4])


def test_a_tuning_curve_is_the_mean_over_the_images_of_a_class(run):
    found = responses(run)
    assert tuning(found)[2].tolist() == pytest.approx([0.3, 0.525, 0.65], abs=1e-3)
    assert [row.mean_length for row in tuning_rows(found)] == tuning(found).flatten().tolist()


def test_a_misclassified_image_is_listed_with_both_lengths(run):
    [mistake] = misclassified(responses(run))
    assert (mistake.image, mistake.prediction, mistake.label) == (2, 1, 2)
    assert mistake.length_of_prediction == pytest.approx(0.8, abs=1e-3)
    assert mistake.length_of_label == pytest.approx(0.3, abs=1e-3)


def test_the_confusion_matrix_counts_every_image_in_its_place(run):
    found = responses(run)
    assert confusion(found).tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert found.error_percent == 25


def test_two_of_three_outvote_a_surer_one():
    a, b = (model(1, labels=[1], sure=0.3) for _ in range(2))
    c = model(2, labels=[1], sure=0.9)
    assert vote([a, b, c]).predictions.tolist() == [1]
    assert vote([a, b, c], "summed").predictions.tolist() == [2]


def test_a_tie_goes_to_the_longest_among_the_tied():
    a, b, c = model(1, labels=[0], sure=0.5), model(2, labels=[0], sure=0.6), model(3, labels=[0], sure=0.4)
    a.lengths[0, 0] = b.lengths[0, 0] = c.lengths[0, 0] = 0.3  # the longest sum, but no vote
    assert vote([a, b, c]).predictions.tolist() == [2]
    assert vote([a, b, c], "summed").predictions.tolist() == [0]


@given(st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=3, max_size=5))
def test_a_vote_gives_each_image_a_class_with_the_most_votes(predicted):
    models = [model(*predictions, labels=[0] * 6) for predictions in predicted]
    found = vote(models).predictions.tolist()
    for image, winner in enumerate(found):
        votes = [predictions[image] for predictions in predicted]
        assert votes.count(winner) == max(votes.count(label) for label in range(4))


def test_one_model_votes_as_it_thinks():
    alone = model(1, 0, 3, labels=[1, 1, 1])
    assert vote([alone]).predictions.equal(alone.predictions)


def test_the_spread_is_over_every_three():
    models = [model(*predicted, labels=[0, 0]) for predicted in ((0, 0), (0, 1), (1, 1), (1, 0))]
    assert spread(models) == [vote(three).error_percent for three in combinations(models, 3)]
    assert len(spread(models)) == 4


def test_models_of_different_images_cannot_vote():
    with pytest.raises(InputError, match="tested on the same images"):
        vote([model(1, labels=[1]), model(1, labels=[0])])
    with pytest.raises(InputError, match="tested on the same images"):
        vote([model(1, labels=[1]), replace(model(1, labels=[1]), classes=("ant", "bee", "fly", "wasp"))])
    with pytest.raises(InputError, match="at least one"):
        vote([])
    with pytest.raises(InputError, match="no rule is called 'loudest'"):
        vote([model(1, labels=[1])], "loudest")
