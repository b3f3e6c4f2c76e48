"""Read the claims of the paper (claims.toml) and compute the verdict on each from the runs of its study."""

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from maxmincaps.analysis import criteria, measures
from maxmincaps.analysis.criteria import MAX_MIN_LABEL, SOFTMAX_LABEL
from maxmincaps.analysis.runs import RunTable, study_runs_by_network
from maxmincaps.analysis.verdicts import Bound, Finding, Verdict, not_tested
from maxmincaps.errors import InputError
from maxmincaps.studies import STUDIES
from maxmincaps.studies.study import DATASETS
from maxmincaps.studies.table import budgets_in_words
from maxmincaps.training.run import RunSummary

BEST = "best_test_accuracy"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, its evidence, the study whose runs decide it, and the criterion that evaluates them."""

    name: str
    sentence: str
    paper: str
    study: str
    criterion: Callable[[RunTable], Finding]


@dataclass(frozen=True)
class Evidence:
    """A claim with what our runs say about it.

    `finding` is that of the paper's network if it was tested, else of a smaller one; `other` is that of the other size.
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
    def summary(self) -> str:
        """The verdict in words, with the number of datasets; it says where the budget is not the paper's."""
        if self.verdict in (Verdict.NOT_TESTED, Verdict.NOT_COMPARABLE):
            return self.finding.summary
        known = self.finding.at_paper
        at_paper = self.finding.runs.at_paper() if known is None else known
        return self.finding.summary + ("" if at_paper else ", at our budget")


def evaluate_claims(runs: Sequence[RunSummary], names: Iterable[str] | None = None) -> list[Evidence]:
    """Evaluate claims by the runs of their studies: all claims, or those with these names."""
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
    findings = [_finding(claim, runs) for runs in tables]
    if not findings:
        return Evidence(claim, not_tested(RunTable((), STUDIES[claim.study])))
    tested = [found for found in findings if found.verdict is not Verdict.NOT_TESTED]
    chosen = tested[0] if tested else max(findings, key=lambda found: found.n)
    others = [found for found in findings if found is not chosen and found.n]
    return Evidence(claim, chosen, others[0] if others else None)


def _finding(claim: Claim, runs: RunTable) -> Finding:
    """Evaluate the runs on the paper's datasets; other datasets stand in only where there are none."""
    runs = runs.filter(lambda run: run.recipe.dataset in DATASETS) or runs
    try:
        return claim.criterion(runs)
    except InputError as error:  # a damaged run folder affects only the claims that need it
        return not_tested(runs, f"cannot be evaluated: {error}")


def _load_claims() -> dict[str, Claim]:
    """Read claims.toml, in which functions are named and the numbers of the paper's tables are left out."""
    table_1 = {dataset: _accuracies("datasets", dataset) for dataset in DATASETS}
    table_4 = _accuracies("normalizations", "mnist")
    gain = {
        dataset: f"{best[MAX_MIN_LABEL] - best[SOFTMAX_LABEL]:+.2f} percentage points "
        f"({best[MAX_MIN_LABEL]:.2f} against {best[SOFTMAX_LABEL]:.2f} %)"
        for dataset, best in table_1.items()
    }
    parse = {
        "bound": lambda value: Bound(**value),
        "combine": criteria.REDUCTIONS.__getitem__,
        "reduce": criteria.REDUCTIONS.__getitem__,
        "measure": partial(getattr, measures),
    }
    claims = {}
    for study, entries in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items():
        for name, entry in entries.items():
            sentence, paper = entry.pop("sentence"), entry.pop("paper").format(gain=gain, table_4=table_4)
            criterion = getattr(criteria, entry.pop("criterion"))
            arguments = {key: parse[key](value) if key in parse else value for key, value in entry.items()}
            claims[name] = Claim(name, sentence, paper, study, partial(criterion, **arguments))
    return claims


def _accuracies(study: str, dataset: str) -> dict[str, float]:
    """Return the best test accuracy that the paper reports of each line of a study on a dataset."""
    lines = {line.label: STUDIES[study].reported(BEST, dataset, line.label) for line in STUDIES[study].lines}
    return {label: reported.value for label, reported in lines.items() if reported}


CLAIMS = _load_claims()  # every claim by name
