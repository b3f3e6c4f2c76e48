"""The claims that the paper makes in words, each a check on our runs. Verdicts are computed, never typed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from maxmincaps.analysis import judges, measures
from maxmincaps.analysis.compare import Verdict
from maxmincaps.analysis.findings import Finding
from maxmincaps.analysis.judges import MAX_MIN, SOFTMAX
from maxmincaps.errors import InputError
from maxmincaps.studies import STUDIES
from maxmincaps.studies.bounds import W_KEPT
from maxmincaps.studies.study import DATASETS, title_of
from maxmincaps.studies.table import budgets_in_words, has_papers_budget, shown_rows
from maxmincaps.training.run import RunSummary


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the number that it stands on, and how our runs are asked about it."""

    name: str
    sentence: str
    paper: str
    study: str
    judge: Callable[[Sequence[RunSummary]], Finding]


@dataclass(frozen=True)
class Evidence:
    """A claim of the paper beside what our runs say: one entry of the report."""

    name: str
    sentence: str
    ours: str
    paper: str
    n: int
    budget: str
    """What the runs cost, from their records, and how many there are; those that diverged count for no number."""
    verdict: Verdict
    study: str
    scales: tuple[str, ...]
    """The scales whose runs were looked at. Empty: there are none."""
    at_paper: bool
    """Whether the runs are all that the paper has, with its budget."""


def evidence(rows: Sequence[RunSummary]) -> list[Evidence]:
    """Judge every claim by the table of records: by the runs of its study that count."""
    names = dict.fromkeys(claim.study for claim in CLAIMS.values())
    counting = {name: _of_the_paper(shown_rows(STUDIES[name], rows)) for name in names}
    return [_evidence(claim, counting[claim.study]) for claim in CLAIMS.values()]


def _of_the_paper(rows: Sequence[RunSummary]) -> Sequence[RunSummary]:
    """Keep the runs on the paper's datasets; those on others stand in for them only where there are none."""
    return [row for row in rows if row.recipe.dataset in DATASETS] or rows


def _evidence(claim: Claim, rows: Sequence[RunSummary]) -> Evidence:
    try:
        finding = claim.judge(rows)
    except InputError as error:  # a damaged record costs the claims that ask for it, not the others
        finding = Finding(f"cannot be judged: {error}", Verdict.TOO_FEW, rows, 0)
    return Evidence(
        name=claim.name,
        sentence=claim.sentence,
        ours=finding.ours,
        paper=claim.paper,
        n=finding.n,
        budget=budgets_in_words(finding.rows),
        verdict=finding.verdict,
        study=claim.study,
        scales=tuple(dict.fromkeys(row.scale for row in finding.rows)),
        at_paper=bool(finding.rows) and _at_paper(claim, finding),
    )


def _at_paper(claim: Claim, finding: Finding) -> bool:
    if finding.at_paper is not None:
        return finding.at_paper
    return has_papers_budget(STUDIES[claim.study], finding.rows)


def _reported(study: str, measure: str, dataset: str, line: str) -> float:
    found = STUDIES[study].reported(measure, dataset, line)
    assert found is not None
    return found.value


def _paper_gain(dataset: str) -> str:
    ours, theirs = (_reported("datasets", "best_test_accuracy", dataset, line) for line in (MAX_MIN, SOFTMAX))
    return f"{ours - theirs:+.2f} points ({ours:.2f} against {theirs:.2f} %)"


def _paper_accuracies(line: str, other: str) -> str:
    ours, theirs = (_reported("normalizations", "best_test_accuracy", "mnist", name) for name in (line, other))
    return f"{ours:.2f} against {theirs:.2f} % of {other}"


_ALL = (
    *(
        Claim(
            f"better-on-{dataset}",
            f"Max-Min gives a better test accuracy than Softmax on {title_of(dataset)}.",
            _paper_gain(dataset),
            "datasets",
            partial(judges.gain, dataset=dataset),
        )
        for dataset in DATASETS
    ),
    Claim(
        "errors-fall",
        "Max-Min takes away 8.6 to 37.5 % of Softmax's errors on the five datasets.",
        "8.6 to 37.5 %",
        "datasets",
        judges.errors_fall,
    ),
    Claim(
        "background-gains-most",
        "The gain is largest where images have a background: bMNIST and CIFAR10.",
        f"bMNIST {_paper_gain('background-mnist')}, CIFAR10 {_paper_gain('cifar10')}",
        "datasets",
        judges.background_gains_most,
    ),
    Claim(
        "softmax-stays-near-start",
        "Most of Softmax's couplings stay near their start of 0.1 (within 0.02; voting children, one image a run).",
        "the majority",
        "datasets",
        partial(
            judges.per_run, line=SOFTMAX, measure=measures.near_start_percent, unit="% of the couplings", above=50.0
        ),
    ),
    Claim(
        "max-min-spreads",
        "Max-Min spreads the couplings more widely than Softmax (sd; voting children, one image a run).",
        "over 0 to 1",
        "datasets",
        partial(
            judges.per_pair, measure=measures.coupling_sd, unit="in standard deviation", first=MAX_MIN, second=SOFTMAX
        ),
    ),
    Claim(
        "parents-differ-more",
        "A child's couplings differ more among its parents with Max-Min (largest less smallest; voting children, one "
        "image a run).",
        "larger",
        "datasets",
        partial(
            judges.per_pair,
            measure=measures.coupling_range,
            unit="of range gained",
            first=MAX_MIN,
            second=SOFTMAX,
        ),
    ),
    Claim(
        "several-strong-parents",
        "Max-Min lets a child have several strong parents (two couplings or more above 0.5, in over a tenth of the "
        "voting children, one image a run; Softmax, whose couplings share 1, cannot).",
        "multiple",
        "datasets",
        partial(
            judges.per_run,
            line=MAX_MIN,
            measure=measures.several_strong_parents_percent,
            unit="% of the voting children",
            above=10.0,
        ),
    ),
    Claim(
        "most-logits-stay-at-zero",
        "Most logits stay at zero (within a hundredth of the largest; one image a run), under both normalizations.",
        "the majority",
        "datasets",
        partial(
            judges.per_both, measure=measures.zero_logits_percent, unit="% of the logits, the lower of two", above=50.0
        ),
    ),
    Claim(
        "peaked-on-mnist",
        "On MNIST the true class alone has a long capsule (longer than a half, in over nine tenths of the test "
        "images), under both normalizations.",
        "highly peaked",
        "datasets",
        lambda rows: judges.per_both(
            judges.runs_of(rows, dataset="mnist"), measures.peaked_percent, "% of the images, the lower of two", 90.0
        ),
    ),
    Claim(
        "several-peaks-on-cifar10",
        "On CIFAR10 several classes have long capsules (longer than a half) in more images than on MNIST, under both "
        "normalizations.",
        "multiple high peaks",
        "datasets",
        partial(
            judges.differs_on_cifar10,
            measure=measures.several_peaks_percent,
            unit="% of the images more, the lower of two",
        ),
    ),
    Claim(
        "classes-closer-on-cifar10",
        "On CIFAR10 the true class stands out less from the others than on MNIST, under both normalizations.",
        "not as good",
        "datasets",
        partial(
            judges.differs_on_cifar10, measure=measures.closeness_of_classes, unit="of length lost, the lower of two"
        ),
    ),
    Claim(
        "true-class-longer",
        "On CIFAR10 Max-Min makes the true class's capsule longer.",
        "higher",
        "datasets",
        lambda rows: judges.per_pair(
            judges.runs_of(rows, dataset="cifar10"), measures.true_length, "of length gained", MAX_MIN, SOFTMAX
        ),
    ),
    Claim(
        "other-classes-shorter",
        "On CIFAR10 Max-Min makes the other classes' capsules shorter.",
        "lower",
        "datasets",
        lambda rows: judges.per_pair(
            judges.runs_of(rows, dataset="cifar10"), measures.other_length, "of length lost", SOFTMAX, MAX_MIN
        ),
    ),
    Claim(
        "tuning-keeps-shape",
        "The tuning curves have the same shape under both normalizations (correlation beside the peaks above 0.9).",
        "similar",
        "datasets",
        judges.tuning_keeps_shape,
    ),
    Claim(
        "iterations-help-max-min",
        "More routing iterations improve Max-Min's test accuracy (judged from two on, as one routes nothing).",
        "improves on all five datasets",
        "iterations",
        partial(judges.slope, line=MAX_MIN, side=1),
    ),
    Claim(
        "iterations-harm-softmax",
        "More routing iterations lower Softmax's test accuracy (judged from two on, as one routes nothing).",
        "falls on all five datasets",
        "iterations",
        partial(judges.slope, line=SOFTMAX, side=-1),
    ),
    Claim(
        "lead-grows",
        "Max-Min's lead over Softmax grows with the number of routing iterations (judged from two on).",
        "one improves, the other falls",
        "iterations",
        judges.lead_grows,
    ),
    Claim(
        "smaller-gap",
        "The gap between training and test accuracy is smaller with Max-Min.",
        "smaller on all five datasets",
        "iterations",
        judges.smaller_gap,
    ),
    Claim(
        "gap-saved-grows",
        "What Max-Min saves of the gap grows with the number of routing iterations (judged from two on).",
        "especially with more iterations",
        "iterations",
        judges.gap_saved_grows,
    ),
    Claim(
        "max-min-is-best-of-six",
        "Of the six normalizations that start from 1.0, Max-Min is the best.",
        _paper_accuracies("Max-Min", "Centered Max-Min"),
        "normalizations",
        partial(judges.stands_out, line=MAX_MIN, side=1),
    ),
    Claim(
        "sum-is-worst-of-six",
        "Of the six normalizations that start from 1.0, the sum is the worst.",
        _paper_accuracies("Sum", "Z-Score"),
        "normalizations",
        partial(judges.stands_out, line="Sum", side=-1),
    ),
    Claim(
        "winner-take-all-is-cheap",
        "Winner-take-all costs only 0.3 points of accuracy (less than 0.35).",
        "0.31 points, 69 % more errors",
        "normalizations",
        judges.winner_take_all_is_cheap,
    ),
    *(
        Claim(
            f"{line}-like-{other}".lower().replace(" ", "-"),
            f"{line} and {other} are approximately the same (less than 0.2 points apart).",
            _paper_accuracies(line, other),
            "normalizations",
            partial(judges.level, line=line, other=other),
        )
        for line, other in (("Centered Max-Min", "Adjusted Log"), ("WTA", "Z-Score"), ("Softmax from 1.0", SOFTMAX))
    ),
    Claim(
        "upper-bound-does-not-matter",
        "The upper bound q does not matter from 0.01 to 1.0 (less than half a point; W as for q = 1, as otherwise our "
        "rule makes up for q).",
        "performs well for all values",
        "bounds",
        partial(judges.no_matter, line=W_KEPT),
    ),
    Claim(
        "start-does-not-matter",
        "The start value of Max-Min does not matter from 0.01 to 1.0 (less than half a point).",
        "robust across two orders of magnitude",
        "bounds",
        partial(judges.no_matter, line="start value"),
    ),
    Claim(
        "record-beats-softmax",
        "With augmentation and relaxed margins, Max-Min beats Softmax on MNIST.",
        "0.24 against 0.32 % mean error",
        "mnist-record",
        judges.record_beats_softmax,
    ),
    Claim(
        "single-record",
        "A single Max-Min network reaches a test error of 0.20 % on MNIST.",
        "0.20 %",
        "mnist-record",
        judges.single_record,
    ),
    Claim(
        "vote-record",
        "The majority vote of three Max-Min networks reaches a test error of 0.17 %.",
        "0.17 % (17 images)",
        "mnist-record",
        judges.vote_record,
    ),
    Claim(
        "vote-beats-one",
        "The vote of three beats the single network.",
        "17 errors against 20, 20 and 23",
        "mnist-record",
        judges.vote_beats_one,
    ),
)

CLAIMS: dict[str, Claim] = {claim.name: claim for claim in _ALL}
"""Every claim by name."""
