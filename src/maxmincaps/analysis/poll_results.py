"""Table 3 and figure 10: answers of people beside predictions of networks and the paper's numbers."""

from typing import NamedTuple

from maxmincaps.analysis.poll import Poll, Question, Side
from maxmincaps.studies.paper import POLL, TABLE_3


class PollRow(NamedTuple):
    """A row of Table 3: share of people and mean length of the networks on label and prediction of one image."""

    image: int
    label: int
    people_on_label: float | None
    network_on_label: float
    prediction: int
    people_on_prediction: float | None
    network_on_prediction: float
    people_agree_with: Side


class AnswerRow(NamedTuple):
    """Answers of people and mean length of the networks for one class of one image, or for "cannot tell"."""

    image: int
    label: int
    prediction: int
    class_name: str
    people: int
    share_of_people: float
    mean_length: float | None


def table_3(poll: Poll) -> list[PollRow]:
    """Return people and networks on the true and on the predicted class, one row per image."""

    def both(asked: Question, label: int) -> tuple[float | None, float]:
        return None if asked.side == Side.NOBODY else float(asked.people[label]), float(asked.network[label])

    return [
        PollRow(q.image, q.label, *both(q, q.label), q.prediction, *both(q, q.prediction), q.side)
        for q in poll.questions
    ]


def agreement(found: Poll) -> str:
    """Return in words on how many images most people agree with the network, here and in the paper."""
    agree = sum(question.side == Side.NETWORK for question in found.questions)
    reported = POLL.reported("people_agree_with_network")
    assert reported is not None
    paper = f"the paper: {reported.value} of {reported.n}"
    return f"people agree with the network on {agree} of {len(found.questions)} images ({paper})"


def paper_rows() -> list[PollRow]:
    """Return the six rows that the paper prints: images where people agree with the network."""
    return [PollRow(*line, Side.NETWORK) for line in TABLE_3]


def answer_rows(poll: Poll) -> list[AnswerRow]:
    """Return a tidy table of all answers: one row for each image and class, and one for "cannot tell"."""
    return [
        AnswerRow(asked.image, asked.label, asked.prediction, name, people, people / max(1, asked.answers), length)
        for asked in poll.questions
        for name, people, length in (
            *zip(poll.classes, asked.counts.tolist(), asked.network.tolist(), strict=True),
            ("cannot tell", asked.cannot_tell, None),
        )
    ]


def examples(poll: Poll) -> list[tuple[str, Question]]:
    """Return the clearest image of each kind that figure 10 shows, with its title.

    The kinds: people agree with the network; people agree with the label; people disagree most among themselves.
    """

    def clearest(side: Side) -> Question | None:
        found = (question for question in poll.questions if question.side == side)
        return max(found, key=lambda question: float(question.people.max()), default=None)

    agree, right = clearest(Side.NETWORK), clearest(Side.LABEL)
    others = [question for question in poll.questions if question not in (agree, right) and question.doubt > 0]
    poor = max(others, key=lambda question: question.doubt, default=None)
    named = {"people agree with the network": agree, "people are right": right, "a poor image": poor}
    return [(title, question) for title, question in named.items() if question]
