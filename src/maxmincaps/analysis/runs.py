"""Many runs as one table: filtering, matched pairs, and means with confidence intervals."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeVar

from scipy.special import stdtrit

from maxmincaps.studies.paper import VOTERS
from maxmincaps.studies.study import PAPER_SCALE, Study
from maxmincaps.studies.table import has_papers_network, shown_rows
from maxmincaps.training.run import RunSummary

Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)
Measure = Callable[[RunSummary], float | None]
"""Returns a number of a complete run, or None if the run folder does not hold what it is measured from."""
CONFIDENCE = 0.95
POWER = 0.8  # probability with which `Interval.detectable` would have been found
MODELS = dict(zip(map(int, VOTERS["seed"]), "ABC", strict=True))
"""The seeds of the networks that vote in Table 2 and figures 9, 10 and A.1 to A.3, and the paper's names of them."""


@dataclass(frozen=True)
class Interval:
    """Mean over n runs or pairs, sample standard deviation, and Student's 95 % interval; a single value has only n."""

    mean: float
    sd: float | None
    n: int
    low: float | None
    high: float | None

    @property
    def detectable(self) -> float | None:
        """Smallest true distance from the bound that n values with this spread show in 80 of 100 repetitions."""
        if self.sd is None:
            return None
        quantiles = stdtrit(self.n - 1, (1 + CONFIDENCE) / 2) + stdtrit(self.n - 1, POWER)
        return float(quantiles) * self.sd / math.sqrt(self.n)

    def with_sd(self, sign: str = "") -> str:
        """Write `91.00 ± 1.41`; `sign` is "+" for a difference."""
        return f"{self.mean:{sign}.2f}" + (f" ± {self.sd:.2f}" if self.sd is not None else "")


def interval(values: Iterable[float]) -> Interval | None:
    """Return mean, standard deviation and 95 % interval of some values, or None if there are none."""
    found = list(values)
    if len(found) < 2:
        return Interval(found[0], None, 1, None, None) if found else None
    mean, sd, n = fmean(found), stdev(found), len(found)
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * sd / math.sqrt(n)
    return Interval(mean, sd, n, mean - half, mean + half)


class PairKey(NamedTuple):
    """What two runs of a matched pair have in common: dataset, place on the axis, seed, budget and images."""

    dataset: str
    value: float | None
    seed: int
    scale: str
    precisions: str
    regenerated: bool

    @classmethod
    def of(cls, run: RunSummary) -> "PairKey":
        """Return the key of the pair that a run belongs to."""
        return cls(run.recipe.dataset, run.value, run.recipe.seed, run.scale, run.precisions, run.regenerated)


@dataclass(frozen=True)
class RunTable(Sequence[RunSummary]):
    """An immutable sequence of runs that can be filtered, grouped and paired.

    Args:
        runs: The runs, diverged and unfinished ones included.
        study: The study whose lines the runs stand on, if there is one.
    """

    runs: tuple[RunSummary, ...] = ()
    study: Study | None = None

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, index: Any) -> Any:
        return self.runs[index]

    def __iter__(self) -> Iterator[RunSummary]:
        return iter(self.runs)

    def filter(self, condition: Callable[[RunSummary], bool]) -> "RunTable":
        """Return the runs that fulfil a condition."""
        return replace(self, runs=tuple(run for run in self.runs if condition(run)))

    def where(self, **wanted: Any) -> "RunTable":
        """Return the runs with these settings, or these values of `line`, `value`, `scale` and `study`."""
        return self.filter(lambda run: all(run.get(name) == value for name, value in wanted.items()))

    def of(self, dataset: str, line: str, value: float | None = None) -> "RunTable":
        """Return the runs of one line of the study, or of one point of its curve."""
        return self.where(dataset=dataset, line=line, value=value)

    def by(self, key: Callable[[RunSummary], Key]) -> "dict[Key, RunTable]":
        """Group the runs by a key, in order of first appearance."""
        groups: dict[Key, list[RunSummary]] = defaultdict(list)
        for run in self.runs:
            groups[key(run)].append(run)
        return {found: replace(self, runs=tuple(own)) for found, own in groups.items()}

    @cached_property
    def complete(self) -> "RunTable":
        """The runs that ended with a result."""
        return self.filter(lambda run: run.complete)

    @cached_property
    def diverged(self) -> "RunTable":
        """The runs that ended without a result, as their loss was not finite."""
        return self.filter(lambda run: run.status == "diverged")

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """The datasets of the runs, in order of first appearance."""
        return tuple(dict.fromkeys(run.recipe.dataset for run in self.runs))

    @property
    def scales(self) -> tuple[str, ...]:
        """The scales of the study that the runs belong to."""
        return tuple(dict.fromkeys(run.scale for run in self.runs))

    def measured(self, measure: Callable[[RunSummary], Value | None]) -> dict[RunSummary, Value]:
        """Return the measure of each complete run that has it."""
        return {run: value for run in self.complete if (value := measure(run)) is not None}

    def mean(self, measure: Measure) -> Interval | None:
        """Return mean and interval of a measure over the complete runs."""
        return interval(self.measured(measure).values())

    def pairs(
        self, measure: Callable[[RunSummary], Value | None], first: str, second: str
    ) -> dict[PairKey, tuple[Value, Value]]:
        """Return the measure of both runs of every matched pair of two lines.

        A run whose partner diverged, is unfinished or lacks the measure has no pair.
        """
        sides: dict[str, dict[PairKey, Value]] = {first: {}, second: {}}
        for run, value in self.measured(measure).items():
            if run.line in sides:
                sides[run.line][PairKey.of(run)] = value
        return {key: (one, sides[second][key]) for key, one in sides[first].items() if key in sides[second]}

    def differences(self, measure: Measure, first: str, second: str) -> list[float]:
        """Return `first - second` of a measure for every matched pair."""
        return [one - other for one, other in self.pairs(measure, first, second).values()]

    def curves(self, measure: Measure, line: str) -> dict[PairKey, dict[float, float]]:
        """Return the measure by place on the axis, for each dataset and seed that has every place of the study.

        A seed that lacks a place would be compared with others over another range, so it is left out.
        """
        found: dict[PairKey, dict[float, float]] = defaultdict(dict)
        for run, value in self.where(line=line).measured(measure).items():
            found[PairKey.of(run)._replace(value=None)][run.value or 0.0] = value
        return {key: points for key, points in found.items() if points.keys() >= self._planned(key, line)}

    def _planned(self, key: PairKey, line: str) -> set[float]:
        """Return the places on the axis that the study plans for a line on a dataset."""
        entries = self.study.entries(key.scale, seeds=1) if self.study else []
        return {e.line.value or 0.0 for e in entries if (e.recipe.dataset, e.line.label) == (key.dataset, line)}

    def at_paper(self, dataset: str | None = None) -> bool:
        """Return whether these runs are all that the paper has of their lines, with its budget."""
        runs = self.runs if dataset is None else self.where(dataset=dataset).runs
        if not runs or self.study is None or any(run.scale != PAPER_SCALE for run in runs):
            return False
        there, lines = {run.fingerprint for run in runs}, {(run.recipe.dataset, run.line, run.value) for run in runs}
        planned = self.study.entries(PAPER_SCALE)
        return all(
            entry.recipe.fingerprint() in there
            for entry in planned
            if (entry.recipe.dataset, entry.line.label, entry.line.value) in lines
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the scales that the runs belong to."""
        notes = (self.study.borrows or self.study).notes if self.study else {}
        return tuple(f"Scale {name}: {notes[name]}." for name in self.scales if name in notes)


Tables = Sequence[RunTable]  # the runs of one study, one table for each size of network; the paper's size first


def study_runs(study: Study, runs: Sequence[RunSummary]) -> RunTable:
    """Return the runs of a study that are evaluated: one scale per dataset, if possible with the paper's network."""
    return RunTable(tuple(shown_rows(study, runs)), study)


def study_runs_by_network(study: Study, runs: Sequence[RunSummary]) -> list[RunTable]:
    """Return the runs of a study with the paper's network, and those with a smaller one, if there are any."""
    known = [run for run in runs if run.images is not None]
    sizes = ([run for run in known if has_papers_network(run) is papers] for papers in (True, False))
    return [table for own in sizes if (table := study_runs(study, own))]


def voters(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Return the complete Max-Min runs that hold class lengths, ordered by seed."""
    able = [run for run in runs if run.complete and run.line == "Max-Min" and run.has("lengths.safetensors")]
    return sorted(able, key=lambda run: run.recipe.seed)


def models_a_b_c(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Return the runs that vote in the paper's Table 2; fewer than three if one diverged or is unfinished."""
    return [run for run in voters(runs) if run.recipe.seed in MODELS]
