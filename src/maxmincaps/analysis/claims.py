"""The claims of the paper, each with the function that judges it. Verdicts are computed from runs, never typed."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from maxmincaps.analysis import judges, measures
from maxmincaps.analysis.judges import MAX_MIN_LABEL, SOFTMAX_LABEL
from maxmincaps.analysis.runs import RunTable, study_runs_by_network
from maxmincaps.analysis.verdicts import Bound, Finding, Verdict, not_tested
from maxmincaps.errors import InputError
from maxmincaps.studies import STUDIES
from maxmincaps.studies.bounds import W_KEPT
from maxmincaps.studies.study import DATASETS, title_of
from maxmincaps.studies.table import budgets_in_words
from maxmincaps.training.run import RunSummary

POINTS = "percentage points"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper.

    Args:
        name: Short name with hyphens.
        sentence: What the paper claims, with the criterion that our runs are judged by.
        paper: The paper's evidence.
        study: Name of the study whose runs decide it.
        judge: Turns the runs of the study into a finding.
    """

    name: str
    sentence: str
    paper: str
    study: str
    judge: Callable[[RunTable], Finding]


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


def _paper_gain(dataset: str) -> str:
    ours, theirs = (_reported("datasets", dataset, line) for line in (MAX_MIN_LABEL, SOFTMAX_LABEL))
    return f"{ours - theirs:+.2f} {POINTS} ({ours:.2f} against {theirs:.2f} %)"


def _paper_accuracies(line: str, other: str) -> str:
    ours, theirs = (_reported("normalizations", "mnist", name) for name in (line, other))
    return f"{ours:.2f} % against {theirs:.2f} % of {other}"


_ACCURACY = (
    *(
        Claim(
            f"better-on-{dataset}",
            f"Max-Min gives a better test accuracy than Softmax on {title_of(dataset)}.",
            _paper_gain(dataset),
            "datasets",
            partial(judges.on_pairs, measure=measures.best_accuracy, unit=POINTS, datasets=(dataset,)),
        )
        for dataset in DATASETS
    ),
    Claim(
        "errors-fall",
        "Max-Min removes 8.6 to 37.5 % of Softmax's errors on the five datasets (at least 8.6 %).",
        "8.6 to 37.5 %",
        "datasets",
        partial(
            judges.on_pairs,
            measure=measures.best_error,
            unit="% of the errors removed",
            combine=judges.relative_fall,
            bound=Bound(8.6, of_paper=True),
            datasets=DATASETS,
        ),
    ),
    Claim(
        "background-gains-most",
        "The gain is largest where images have a background: bMNIST and CIFAR10.",
        f"bMNIST {_paper_gain('background-mnist')}, CIFAR10 {_paper_gain('cifar10')}",
        "datasets",
        judges.background_gains_most,
    ),
)

_INSIDE = (
    Claim(
        "softmax-stays-near-start",
        "Most routing coefficients of Softmax stay near their start of 0.1 (more than half within 0.02; active "
        "capsules, one image per run).",
        "the majority",
        "datasets",
        partial(
            judges.on_runs,
            measure=measures.near_start_percent,
            unit="% of the coefficients",
            line=SOFTMAX_LABEL,
            bound=Bound(50.0),
        ),
    ),
    Claim(
        "max-min-spreads",
        "Max-Min spreads the coefficients more widely than Softmax (standard deviation; active capsules, one image per "
        "run).",
        "over 0 to 1",
        "datasets",
        partial(judges.on_pairs, measure=measures.coefficient_sd, unit="in standard deviation"),
    ),
    Claim(
        "parents-differ-more",
        "A capsule's coefficients differ more among its parents with Max-Min (largest minus smallest; active capsules, "
        "one image per run).",
        "larger",
        "datasets",
        partial(judges.on_pairs, measure=measures.coefficient_range, unit="larger range"),
    ),
    Claim(
        "several-strong-parents",
        "Max-Min allows several strong parents (two or more coefficients above 0.5 in over 10 % of the active "
        "capsules, one image per run; Softmax cannot, as its coefficients sum to 1).",
        "multiple",
        "datasets",
        partial(
            judges.on_runs,
            measure=measures.several_strong_parents_percent,
            unit="% of the active capsules",
            line=MAX_MIN_LABEL,
            bound=Bound(10.0),
        ),
    ),
    Claim(
        "most-logits-stay-at-zero",
        "Most logits stay at zero under both normalizations (within a hundredth of the largest; one image per run).",
        "the majority",
        "datasets",
        partial(
            judges.on_pairs,
            measure=measures.zero_logits_percent,
            unit="% of the logits, the lower of both",
            combine=min,
            bound=Bound(50.0),
        ),
    ),
    Claim(
        "peaked-on-mnist",
        "On MNIST only the true class has a long capsule, under both normalizations (longer than 0.5 in over 90 % of "
        "the test images).",
        "highly peaked",
        "datasets",
        partial(
            judges.on_pairs,
            measure=measures.peaked_percent,
            unit="% of the images, the lower of both",
            combine=min,
            bound=Bound(90.0),
            datasets=("mnist",),
        ),
    ),
    Claim(
        "several-peaks-on-cifar10",
        "On CIFAR10 several classes have long capsules (longer than 0.5) in more images than on MNIST, under both "
        "normalizations.",
        "multiple high peaks",
        "datasets",
        partial(
            judges.differs_on_cifar10,
            measure=measures.several_peaks_percent,
            unit="% of the images more, the lower of both",
        ),
    ),
    Claim(
        "classes-closer-on-cifar10",
        "On CIFAR10 the true class stands out less from the others than on MNIST, under both normalizations.",
        "not as good",
        "datasets",
        partial(
            judges.differs_on_cifar10, measure=measures.closeness_of_classes, unit="of length lost, the lower of both"
        ),
    ),
    Claim(
        "true-class-longer",
        "On CIFAR10 Max-Min makes the true class's capsule longer.",
        "higher",
        "datasets",
        partial(judges.on_pairs, measure=measures.true_length, unit="of length gained", datasets=("cifar10",)),
    ),
    Claim(
        "other-classes-shorter",
        "On CIFAR10 Max-Min makes the other classes' capsules shorter.",
        "lower",
        "datasets",
        partial(
            judges.on_pairs,
            measure=measures.other_length,
            unit="of length lost",
            first=SOFTMAX_LABEL,
            second=MAX_MIN_LABEL,
            datasets=("cifar10",),
        ),
    ),
    Claim(
        "tuning-keeps-shape",
        "The tuning curves have the same shape under both normalizations (correlation beside the peaks above 0.9).",
        "similar",
        "datasets",
        partial(
            judges.on_pairs,
            measure=measures.tuning_beside_peaks,
            unit="correlation beside the peaks",
            combine=judges.correlation,
            bound=Bound(0.9),
            datasets=("mnist", "cifar10"),
        ),
    ),
)

_ITERATIONS = (
    Claim(
        "iterations-help-max-min",
        "More routing iterations improve Max-Min's test accuracy (slope from two iterations on; one routes nothing).",
        "improves on all five datasets",
        "iterations",
        partial(
            judges.on_curves,
            measure=measures.best_accuracy,
            unit=f"{POINTS} per iteration",
            reduce=judges.slope,
            line=MAX_MIN_LABEL,
        ),
    ),
    Claim(
        "iterations-harm-softmax",
        "More routing iterations lower Softmax's test accuracy (slope from two iterations on; one routes nothing).",
        "falls on all five datasets",
        "iterations",
        partial(
            judges.on_curves,
            measure=measures.best_accuracy,
            unit=f"{POINTS} per iteration",
            reduce=judges.slope,
            line=SOFTMAX_LABEL,
            bound=Bound(0.0, side=-1),
        ),
    ),
    *(
        Claim(
            name,
            sentence,
            paper,
            "iterations",
            partial(judges.on_curves, measure=measure, unit=unit, reduce=reduce, line=line, minus=minus),
        )
        for name, sentence, paper, measure, unit, reduce, line, minus in (
            (
                "lead-grows",
                "Max-Min's lead over Softmax grows with the number of routing iterations (slope from two on).",
                "one improves, the other falls",
                measures.best_accuracy,
                f"{POINTS} of lead per iteration",
                judges.slope,
                MAX_MIN_LABEL,
                SOFTMAX_LABEL,
            ),
            (
                "smaller-gap",
                "The gap between training and test accuracy is smaller with Max-Min (final weights; mean over the "
                "numbers of iterations).",
                "smaller on all five datasets",
                measures.generalization_gap,
                f"{POINTS} of gap saved",
                judges.average,
                SOFTMAX_LABEL,
                MAX_MIN_LABEL,
            ),
            (
                "gap-saved-grows",
                "The part of the gap that Max-Min saves grows with the number of routing iterations (slope from two "
                "on).",
                "especially with more iterations",
                measures.generalization_gap,
                f"{POINTS} of gap saved per iteration",
                judges.slope,
                SOFTMAX_LABEL,
                MAX_MIN_LABEL,
            ),
        )
    ),
)

_NORMALIZATIONS = (
    Claim(
        "max-min-is-best-of-six",
        "Of the six normalizations that start from 1.0, Max-Min is the best.",
        _paper_accuracies(MAX_MIN_LABEL, "Centered Max-Min"),
        "normalizations",
        partial(judges.stands_out, line=MAX_MIN_LABEL, side=1),
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
        f"Winner-take-all costs only 0.3 {POINTS} of accuracy (less than 0.35).",
        f"0.31 {POINTS}, 69 % more errors",
        "normalizations",
        partial(
            judges.on_pairs,
            measure=measures.best_accuracy,
            unit=f"{POINTS} lost",
            second="WTA",
            bound=Bound(0.35, side=-1, of_paper=True),
        ),
    ),
    *(
        Claim(
            f"{line}-like-{other}".lower().replace(" ", "-"),
            f"{line} and {other} are approximately equal (less than 0.2 {POINTS} apart).",
            _paper_accuracies(line, other),
            "normalizations",
            partial(
                judges.on_pairs,
                measure=measures.best_accuracy,
                unit=POINTS,
                first=line,
                second=other,
                bound=Bound(0.2, side=0),
            ),
        )
        for line, other in (
            ("Centered Max-Min", "Adjusted Log"),
            ("WTA", "Z-Score"),
            ("Softmax from 1.0", SOFTMAX_LABEL),
        )
    ),
    Claim(
        "upper-bound-does-not-matter",
        f"The upper bound q does not matter from 0.01 to 1.0 (less than 0.5 {POINTS} from worst to best; W's "
        "initialisation and learning rate fixed at their q = 1 values).",
        "performs well for all values",
        "bounds",
        partial(judges.does_not_matter, line=W_KEPT),
    ),
    Claim(
        "start-does-not-matter",
        f"The start value of Max-Min does not matter from 0.01 to 1.0 (less than 0.5 {POINTS} from worst to best).",
        "robust across two orders of magnitude",
        "bounds",
        partial(judges.does_not_matter, line="start value"),
    ),
)

_RECORD = (
    Claim(
        "record-beats-softmax",
        "With augmentation and relaxed margins, Max-Min beats Softmax on MNIST.",
        "0.24 against 0.32 % mean error",
        "mnist-record",
        partial(judges.on_pairs, measure=measures.best_accuracy, unit=POINTS),
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
        "The majority vote of three networks beats the best of them.",
        "17 errors against 20, 20 and 23",
        "mnist-record",
        judges.vote_beats_one,
    ),
)

CLAIMS: dict[str, Claim] = {
    claim.name: claim for claim in (*_ACCURACY, *_INSIDE, *_ITERATIONS, *_NORMALIZATIONS, *_RECORD)
}
"""Every claim by name."""
