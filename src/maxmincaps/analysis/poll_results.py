"""Table 3 and figure 10: what people answered, beside what the networks predict and what the paper reports."""

from collections.abc import Iterator
from typing import Any

from maxmincaps.analysis.poll import Poll, Question, Side
from maxmincaps.studies.table_3_poll import POLL, TABLE_3

Row = dict[str, Any]


def table_3(poll: Poll) -> list[Row]:
    """Give people beside networks, on the true and on the predicted label: a row for each image."""
    return [
        _row(
            question.image,
            question.label,
            *_both(question, question.label),
            question.prediction,
            *_both(question, question.prediction),
            question.side,
        )
        for question in poll.questions
    ]


def agreement(found: Poll) -> str:
    """Say on how many images most people are with the network, and how many these are in the paper."""
    agree = sum(question.side == Side.NETWORK for question in found.questions)
    told = POLL.reported("people_agree_with_network")
    assert told is not None
    paper = f"the paper: {told.value} of {told.n}"
    return f"people agree with the network on {agree} of {len(found.questions)} images ({paper})"


def paper_rows() -> list[Row]:
    """Give the six rows that the paper prints: where people agree with the network and not with the label."""
    return [_row(*line, Side.NETWORK) for line in TABLE_3]


def answer_rows(poll: Poll) -> list[Row]:
    """Return a tidy table of all answers: one row for each image and class, and one for "cannot tell"."""
    return [
        {
            "image": question.image,
            "label": question.label,
            "prediction": question.prediction,
            "class": name,
            "people": people,
            "share_of_people": people / max(1, question.answers),
            "mean_length": length,
        }
        for question in poll.questions
        for name, people, length in zip(
            (*poll.classes, "cannot tell"),
            (*question.counts.tolist(), question.cannot_tell),
            (*question.network.tolist(), None),
            strict=True,
        )
    ]


def examples(poll: Poll) -> list[tuple[str, Question]]:
    """Choose the clearest image of each kind that figure 10 shows, where there is one.

    People side with the network; people side with the label; and the one that people doubt most.
    """
    agree = _clearest(question for question in poll.questions if question.side == Side.NETWORK)
    right = _clearest(question for question in poll.questions if question.side == Side.LABEL)
    others = [question for question in poll.questions if question not in (agree, right) and question.doubt > 0]
    poor = max(others, key=lambda question: question.doubt, default=None)
    named = {"people agree with the network": agree, "people are right": right, "a poor image": poor}
    return [(title, question) for title, question in named.items() if question]


def _clearest(questions: Iterator[Question]) -> Question | None:
    return max(questions, key=lambda question: float(question.people.max()), default=None)


def _both(question: Question, label: int) -> tuple[float | None, float]:
    people = None if question.side == Side.NOBODY else float(question.people[label])
    return people, float(question.network[label])


def _row(
    image: int,
    label: int,
    people_on_label: float | None,
    network_on_label: float,
    prediction: int,
    people_on_prediction: float | None,
    network_on_prediction: float,
    people_agree_with: Side,
) -> Row:
    return {
        "image": image,
        "label": label,
        "people_on_label": people_on_label,
        "network_on_label": network_on_label,
        "prediction": prediction,
        "people_on_prediction": people_on_prediction,
        "network_on_prediction": network_on_prediction,
        "people_agree_with": str(people_agree_with),
    }
