"""The claims of the paper, each with the function that judges it. Verdicts are computed from runs, never typed."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from maxmincaps.analysis import judges, measures
from maxmincaps.analysis.judges import MAX_MIN_LABEL, SOFTMAX_LABEL
from maxmincaps.analysis.runs import Measure, RunTable, study_runs_by_network
from maxmincaps.analysis.verdicts import Bound, Finding, Verdict, not_tested
from maxmincaps.errors import InputError
from maxmincaps.studies import STUDIES
from maxmincaps.studies.paper import W_KEPT
from maxmincaps.studies.study import DATASETS, title_of
from maxmincaps.studies.table import budgets_in_words
from maxmincaps.training.run import RunSummary

POINTS = "percentage points"
Judge = Callable[[RunTable], Finding]
BOTH_BELOW = "the lower of both"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper.

    Args:
        name: Short name with hyphens.
        sentence: What the paper claims, with the criterion for our runs.
        paper: The paper's evidence.
        study: Name of the study whose runs decide it.
        judge: Turns the runs of the study into a finding.
    """

    name: str
    sentence: str
    paper: str
    study: str
    judge: Judge


@dataclass(frozen=True)
class Evidence:
    """A claim with what our runs say about it.

    Args:
        claim: The claim.
        finding: What the runs with the deciding network say: the paper's network if it was tested, else a smaller one.
        other: The finding of runs with the other size of network, if there are any.
    """

    claim: Claim
    finding: Finding
    other: Finding | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return self.finding.verdict

    @property
    def budget(self) -> str:
        """What the runs cost, in words."""
        return budgets_in_words(self.finding.runs)

    @property
    def at_paper(self) -> bool:
        """Whether the runs are all that the paper has, with its budget."""
        known = self.finding.at_paper
        return self.finding.runs.at_paper() if known is None else known

    @property
    def summary(self) -> str:
        """The verdict in words, with the number of datasets; it says where the budget is not the paper's."""
        decided = self.verdict not in (Verdict.NOT_TESTED, Verdict.NOT_COMPARABLE)
        return self.finding.summary + (", at our budget" if decided and not self.at_paper else "")


def evaluate_claims(runs: Sequence[RunSummary], names: Iterable[str] | None = None) -> list[Evidence]:
    """Judge claims by the runs of their studies.

    Args:
        runs: The runs of a folder, each once.
        names: The claims to judge. Default: all.
    """
    claims = [CLAIMS[name] for name in (CLAIMS if names is None else names)]
    studies = dict.fromkeys(claim.study for claim in claims)
    tables = {name: study_runs_by_network(STUDIES[name], runs) for name in studies}
    return [_evaluate(claim, tables[claim.study]) for claim in claims]


def count_verdicts(evidence: Sequence[Evidence]) -> dict[Verdict, int]:
    """Return how many claims have each verdict, in a fixed order."""
    counts = Counter(found.verdict for found in evidence)
    return {verdict: counts[verdict] for verdict in Verdict}


def summarize_verdicts(evidence: Sequence[Evidence]) -> str:
    """Return the counts as a sentence: `35 claims: 7 supported, …`."""
    counts = count_verdicts(evidence)
    return f"{len(evidence)} claims: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + "."


def _evaluate(claim: Claim, tables: Sequence[RunTable]) -> Evidence:
    findings = [_finding(claim, _of_the_paper(runs)) for runs in tables]
    if not findings:
        return Evidence(claim, not_tested(RunTable((), STUDIES[claim.study])))
    tested = [found for found in findings if found.verdict is not Verdict.NOT_TESTED]
    chosen = tested[0] if tested else max(findings, key=lambda found: found.n)
    others = [found for found in findings if found is not chosen and found.n]
    return Evidence(claim, chosen, others[0] if others else None)


def _of_the_paper(runs: RunTable) -> RunTable:
    """Keep the runs on the paper's datasets; other datasets stand in only where there are none."""
    return runs.filter(lambda run: run.recipe.dataset in DATASETS) or runs


def _finding(claim: Claim, runs: RunTable) -> Finding:
    try:
        return claim.judge(runs)
    except InputError as error:  # a damaged run folder affects only the claims that need it
        return not_tested(runs, f"cannot be judged: {error}")


def _reported(study: str, dataset: str, line: str) -> float:
    found = STUDIES[study].reported("best_test_accuracy", dataset, line)
    assert found is not None
    return found.value


def _on_pairs(measure: Callable[[RunSummary], Any], unit: str = POINTS, **others: Any) -> Judge:
    return partial(judges.on_pairs, measure=measure, unit=unit, **others)


def _on_curves(measure: Measure, unit: str, reduce: Callable[..., float], line: str, **others: Any) -> Judge:
    unit = f"{POINTS} {unit}".strip()
    return partial(judges.on_curves, measure=measure, unit=unit, reduce=reduce, line=line, **others)


def _claims(study: str, *claims: tuple[str, str, str, Judge]) -> dict[str, Claim]:
    """Return claims by name, from name, sentence, the paper's evidence and judge of each."""
    return {name: Claim(name, sentence, paper, study, judge) for name, sentence, paper, judge in claims}


def _paper_gain(dataset: str) -> str:
    ours, theirs = (_reported("datasets", dataset, line) for line in (MAX_MIN_LABEL, SOFTMAX_LABEL))
    return f"{ours - theirs:+.2f} {POINTS} ({ours:.2f} against {theirs:.2f} %)"


def _paper_accuracies(line: str, other: str) -> str:
    ours, theirs = (_reported("normalizations", "mnist", name) for name in (line, other))
    return f"{ours:.2f} % against {theirs:.2f} % of {other}"


_ACCURACY = _claims(
    "datasets",
    *(
        (
            f"better-on-{dataset}",
            f"Max-Min gives a better test accuracy than Softmax on {title_of(dataset)}.",
            _paper_gain(dataset),
            _on_pairs(measures.best_accuracy, datasets=(dataset,)),
        )
        for dataset in DATASETS
    ),
    (
        "errors-fall",
        "Max-Min removes 8.6 to 37.5 % of Softmax's errors on the five datasets (at least 8.6 %).",
        "8.6 to 37.5 %",
        _on_pairs(
            measures.best_error,
            "% of the errors removed",
            combine=judges.relative_fall,
            bound=Bound(8.6, of_paper=True),
            datasets=DATASETS,
        ),
    ),
    (
        "background-gains-most",
        "The gain is largest where images have a background: bMNIST and CIFAR10.",
        f"bMNIST {_paper_gain('background-mnist')}, CIFAR10 {_paper_gain('cifar10')}",
        judges.background_gains_most,
    ),
)

_INSIDE = _claims(
    "datasets",
    (
        "softmax-stays-near-start",
        "Most routing coefficients of Softmax stay near their start of 0.1 (more than half within 0.02; active "
        "capsules, one image per run).",
        "the majority",
        partial(
            judges.on_runs,
            measure=measures.near_start_percent,
            unit="% of the coefficients",
            line=SOFTMAX_LABEL,
            bound=Bound(50.0),
        ),
    ),
    (
        "max-min-spreads",
        "Max-Min spreads the coefficients more widely than Softmax (standard deviation; active capsules, one image per "
        "run).",
        "over 0 to 1",
        _on_pairs(measures.coefficient_sd, "in standard deviation"),
    ),
    (
        "parents-differ-more",
        "A capsule's coefficients differ more among its parents with Max-Min (largest minus smallest; active capsules, "
        "one image per run).",
        "larger",
        _on_pairs(measures.coefficient_range, "larger range"),
    ),
    (
        "several-strong-parents",
        "Max-Min allows several strong parents (two or more coefficients above 0.5 in over 10 % of the active "
        "capsules, one image per run; Softmax cannot, as its coefficients sum to 1).",
        "multiple",
        partial(
            judges.on_runs,
            measure=measures.several_strong_parents_percent,
            unit="% of the active capsules",
            line=MAX_MIN_LABEL,
            bound=Bound(10.0),
        ),
    ),
    (
        "most-logits-stay-at-zero",
        "Most logits stay at zero under both normalizations (within a hundredth of the largest; one image per run).",
        "the majority",
        _on_pairs(measures.zero_logits_percent, f"% of the logits, {BOTH_BELOW}", combine=min, bound=Bound(50.0)),
    ),
    (
        "peaked-on-mnist",
        "On MNIST only the true class has a long capsule, under both normalizations (longer than 0.5 in over 90 % of "
        "the test images).",
        "highly peaked",
        _on_pairs(
            measures.peaked_percent,
            f"% of the images, {BOTH_BELOW}",
            combine=min,
            bound=Bound(90.0),
            datasets=("mnist",),
        ),
    ),
    (
        "several-peaks-on-cifar10",
        "On CIFAR10 several classes have long capsules (longer than 0.5) in more images than on MNIST, under both "
        "normalizations.",
        "multiple high peaks",
        partial(
            judges.differs_on_cifar10,
            measure=measures.several_peaks_percent,
            unit=f"% of the images more, {BOTH_BELOW}",
        ),
    ),
    (
        "classes-closer-on-cifar10",
        "On CIFAR10 the true class stands out less from the others than on MNIST, under both normalizations.",
        "not as good",
        partial(judges.differs_on_cifar10, measure=measures.closeness_of_classes, unit=f"of length lost, {BOTH_BELOW}"),
    ),
    (
        "true-class-longer",
        "On CIFAR10 Max-Min makes the true class's capsule longer.",
        "higher",
        _on_pairs(measures.true_length, "of length gained", datasets=("cifar10",)),
    ),
    (
        "other-classes-shorter",
        "On CIFAR10 Max-Min makes the other classes' capsules shorter.",
        "lower",
        _on_pairs(
            measures.other_length,
            "of length lost",
            first=SOFTMAX_LABEL,
            second=MAX_MIN_LABEL,
            datasets=("cifar10",),
        ),
    ),
    (
        "tuning-keeps-shape",
        "The tuning curves have the same shape under both normalizations (correlation beside the peaks above 0.9).",
        "similar",
        _on_pairs(
            measures.tuning_beside_peaks,
            "correlation beside the peaks",
            combine=judges.correlation,
            bound=Bound(0.9),
            datasets=("mnist", "cifar10"),
        ),
    ),
)

_ITERATIONS = _claims(
    "iterations",
    (
        "iterations-help-max-min",
        "More routing iterations improve Max-Min's test accuracy (slope from two iterations on; one routes nothing).",
        "improves on all five datasets",
        _on_curves(measures.best_accuracy, "per iteration", judges.slope, MAX_MIN_LABEL),
    ),
    (
        "iterations-harm-softmax",
        "More routing iterations lower Softmax's test accuracy (slope from two iterations on; one routes nothing).",
        "falls on all five datasets",
        _on_curves(measures.best_accuracy, "per iteration", judges.slope, SOFTMAX_LABEL, bound=Bound(0.0, side=-1)),
    ),
    (
        "lead-grows",
        "Max-Min's lead over Softmax grows with the number of routing iterations (slope from two on).",
        "one improves, the other falls",
        _on_curves(measures.best_accuracy, "of lead per iteration", judges.slope, MAX_MIN_LABEL, minus=SOFTMAX_LABEL),
    ),
    (
        "smaller-gap",
        "The gap between training and test accuracy is smaller with Max-Min (final weights; mean over the numbers of "
        "iterations).",
        "smaller on all five datasets",
        _on_curves(measures.generalization_gap, "of gap saved", judges.average, SOFTMAX_LABEL, minus=MAX_MIN_LABEL),
    ),
    (
        "gap-saved-grows",
        "The part of the gap that Max-Min saves grows with the number of routing iterations (slope from two on).",
        "especially with more iterations",
        _on_curves(
            measures.generalization_gap,
            "of gap saved per iteration",
            judges.slope,
            SOFTMAX_LABEL,
            minus=MAX_MIN_LABEL,
        ),
    ),
)

_NORMALIZATIONS = _claims(
    "normalizations",
    (
        "max-min-is-best-of-six",
        "Of the six normalizations that start from 1.0, Max-Min is the best.",
        _paper_accuracies(MAX_MIN_LABEL, "Centered Max-Min"),
        partial(judges.stands_out, line=MAX_MIN_LABEL, side=1),
    ),
    (
        "sum-is-worst-of-six",
        "Of the six normalizations that start from 1.0, the sum is the worst.",
        _paper_accuracies("Sum", "Z-Score"),
        partial(judges.stands_out, line="Sum", side=-1),
    ),
    (
        "winner-take-all-is-cheap",
        f"Winner-take-all costs only 0.3 {POINTS} of accuracy (less than 0.35).",
        f"0.31 {POINTS}, 69 % more errors",
        _on_pairs(measures.best_accuracy, f"{POINTS} lost", second="WTA", bound=Bound(0.35, side=-1, of_paper=True)),
    ),
    *(
        (
            f"{line}-like-{other}".lower().replace(" ", "-"),
            f"{line} and {other} are approximately equal (less than 0.2 {POINTS} apart).",
            _paper_accuracies(line, other),
            _on_pairs(measures.best_accuracy, first=line, second=other, bound=Bound(0.2, side=0)),
        )
        for line, other in (
            ("Centered Max-Min", "Adjusted Log"),
            ("WTA", "Z-Score"),
            ("Softmax from 1.0", SOFTMAX_LABEL),
        )
    ),
)

_BOUNDS = _claims(
    "bounds",
    (
        "upper-bound-does-not-matter",
        f"The upper bound q does not matter from 0.01 to 1.0 (less than 0.5 {POINTS} from worst to best; W's "
        "initialisation and learning rate fixed at their q = 1 values).",
        "performs well for all values",
        partial(judges.does_not_matter, line=W_KEPT),
    ),
    (
        "start-does-not-matter",
        f"The start value of Max-Min does not matter from 0.01 to 1.0 (less than 0.5 {POINTS} from worst to best).",
        "robust across two orders of magnitude",
        partial(judges.does_not_matter, line="start value"),
    ),
)

_RECORD = _claims(
    "mnist-record",
    (
        "record-beats-softmax",
        "With augmentation and relaxed margins, Max-Min beats Softmax on MNIST.",
        "0.24 against 0.32 % mean error",
        _on_pairs(measures.best_accuracy),
    ),
    (
        "single-record",
        "A single Max-Min network reaches a test error of 0.20 % on MNIST.",
        "0.20 %",
        judges.single_record,
    ),
    (
        "vote-record",
        "The majority vote of three Max-Min networks reaches a test error of 0.17 %.",
        "0.17 % (17 images)",
        judges.vote_record,
    ),
    (
        "vote-beats-one",
        "The majority vote of three networks beats the best of them.",
        "17 errors against 20, 20 and 23",
        judges.vote_beats_one,
    ),
)

CLAIMS: dict[str, Claim] = {**_ACCURACY, **_INSIDE, **_ITERATIONS, **_NORMALIZATIONS, **_BOUNDS, **_RECORD}
"""Every claim by name."""
