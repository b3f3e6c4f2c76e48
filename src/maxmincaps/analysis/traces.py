"""How routing proceeds for one training image, iteration by iteration: figures 2 to 4, from run folders alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maxmincaps.data.augment import for_testing
from maxmincaps.data.batches import as_float
from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import load_network, load_tensors
from maxmincaps.training.evaluate import images_seen, routing_trace
from maxmincaps.training.responses import best_is_last
from maxmincaps.training.run import Run


@dataclass(frozen=True, eq=False)
class Trace:
    """Logits b_ij and routing coefficients c_ij of the first training image after training, and its true class."""

    logits: Float[Tensor, "iteration child parent"]
    couplings: Float[Tensor, "iteration child parent"]
    label: int
    alive: Bool[Tensor, "child"]
    """Which lower-level capsules are active. An inactive one has a zero output, and its logits stay at zero."""


class HistogramBin(NamedTuple):
    """One bin of a histogram of `logits` or `couplings`, of the column of the `true class` alone or of `all`.

    `iteration` counts from 1, the initial values, as in figure 2.
    """

    iteration: int
    quantity: str
    column: str
    low: float
    high: float
    count: int
    of_active: int


class Coefficient(NamedTuple):
    """Logit and routing coefficient between one lower-level capsule and one parent at the last iteration."""

    child: int
    parent: int
    logit: float
    coupling: float


def trace(run: Path | str) -> Trace:
    """Read and validate the trace of a run folder."""
    path = Path(run) / "trace.safetensors"
    tensors, _ = load_tensors(path)
    logits, couplings, label = (tensors[name] for name in ("logits", "couplings", "label"))
    shapes = tuple(logits.shape), tuple(couplings.shape)
    if len(shapes[0]) != 3 or shapes[0] != shapes[1] or not logits.numel():
        raise InputError(f"{path}: expected logits and couplings of (iteration, child, parent), found {shapes}")
    if not all(tensor.is_floating_point() and tensor.isfinite().all() for tensor in (logits, couplings)):
        raise InputError(f"{path}: expected finite logits and couplings, found others among them")
    if label.is_floating_point() or label.numel() != 1 or not 0 <= int(label) < shapes[0][2]:
        raise InputError(f"{path}: expected a label in 0…{shapes[0][2] - 1}, found {label.dtype} {label.shape}")
    # Runs of the first version do not say which capsules are active; logits that moved do.
    alive = tensors.get("alive", (logits != 0).any(dim=2).any(dim=0))
    if alive.dtype != torch.bool or alive.shape != logits.shape[1:2]:
        raise InputError(f"{path}: expected whether each child is active, found {alive.dtype} {tuple(alive.shape)}")
    return Trace(logits.float(), couplings.float(), int(label), alive)


def trace_of(run: Path | str, weights: Literal["best", "last"] = "last", dataset: Path | str | None = None) -> Trace:
    """Return the trace of the last weights, which the run folder stores, or compute that of the best ones.

    `dataset` is the path of the run's own images. Default: where they were when it was trained.
    """
    if weights == "last" or best_is_last(Path(run)):
        return trace(run)
    first = images_seen(Run(Path(run)), dataset).train.take(slice(0, 1))
    image = for_testing(Run(Path(run)).recipe)(as_float(first.images))[0]
    alive, steps = routing_trace(load_network(run, weights), image)
    logits, couplings = (torch.stack([getattr(step, name)[0] for step in steps]) for name in ("logits", "couplings"))
    return Trace(logits.float(), couplings.float(), int(first.labels), alive)


def evolution(found: Trace, *, bins: int = 50) -> list[HistogramBin]:
    """Count logits and couplings at each iteration in bins; all iterations of one quantity share their edges."""
    rows = []
    for quantity, values in (("logits", found.logits), ("couplings", found.couplings)):
        edges = _edges(values, bins)
        ends = (edges[:-1].tolist(), edges[1:].tolist())
        for column, chosen in (("true class", values[:, :, found.label, None]), ("all", values)):
            for iteration, step in enumerate(chosen, 1):
                counts = (torch.histogram(part.flatten(), edges).hist for part in (step, step[found.alive]))
                every = zip(*ends, *(one.int().tolist() for one in counts), strict=True)
                rows += [HistogramBin(iteration, quantity, column, *numbers) for numbers in every]
    return rows


def chosen_children(found: Trace, count: int = 3) -> list[int]:
    """Return active capsules whose strongest parents differ, those with the widest range of logits first."""
    last = found.logits[-1]
    decided = (last.amax(dim=1) - last.amin(dim=1)) * found.alive
    order = decided.argsort(descending=True, stable=True).tolist()
    winners: dict[int, int] = {}
    for child in order:
        winners.setdefault(int(last[child].argmax()), child)
    # A network may have fewer strongest parents than `count`; the next widest ranges fill up.
    others = [child for child in order if child not in winners.values()]
    return [*winners.values(), *others][:count]


def rows(found: Trace, children: Sequence[int] | None = None, *, count: int = 3) -> list[Coefficient]:
    """Return logits and couplings at the last iteration of some children, by default of the chosen ones (figure 4)."""
    number = found.logits.shape[1]
    chosen = chosen_children(found, count) if children is None else list(children)
    for child in chosen:
        if not 0 <= child < number:
            raise InputError(f"child: expected 0 to {number - 1}, found {child}")
    return [
        Coefficient(child, parent, found.logits[-1, child, parent].item(), found.couplings[-1, child, parent].item())
        for child in chosen
        for parent in range(found.logits.shape[2])
    ]


def _edges(values: Float[Tensor, "*any"], bins: int) -> Float[Tensor, "edge"]:
    low, high = values.min().item(), values.max().item()
    if high - low < 1e-6:
        low, high = low - 0.5, high + 0.5
    edges = torch.linspace(low, high, bins + 1)
    edges[0], edges[-1] = min(low, edges[0].item()), max(high, edges[-1].item())  # rounding must lose no value
    return edges
