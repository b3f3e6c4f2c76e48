"""How routing went for one training image, iteration by iteration: figures 2 to 4, from records alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import load_tensors

RunSummary = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trace:
    """Every routing step of the first training image, after training."""

    logits: Float[Tensor, "iteration child parent"]
    couplings: Float[Tensor, "iteration child parent"]
    label: int
    """The image's true class: the column that figures 2 and 3 show."""
    alive: Bool[Tensor, "child"]
    """Which children vote. A dead one votes zero, and its logits stay at their start."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """One panel of figures 2 and 3."""

    iteration: int
    """From 0, the initial values."""
    quantity: str
    """`logits` or `couplings`."""
    column: str
    """`true class` or `all`."""
    edges: Float[Tensor, "edge"]
    counts: Float[Tensor, "bin"]
    voting: Float[Tensor, "bin"]
    """How many of them belong to children that vote; the others are at their start, or where equal logits put them."""


def trace(run: Path | str) -> Trace:
    """Read the trace of a record."""
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
    # Older records do not say which children vote; their logits do, if there was more than one iteration.
    alive = tensors.get("alive", (logits != 0).any(dim=2).any(dim=0))
    if alive.dtype != torch.bool or alive.shape != logits.shape[1:2]:
        raise InputError(f"{path}: expected whether each child is alive, found {alive.dtype} {tuple(alive.shape)}")
    return Trace(logits.float(), couplings.float(), int(label), alive)


def evolution(run: Path | str, *, bins: int = 50) -> list[Histogram]:
    """Count logits and couplings at each iteration: all of them, and those of the true class's column.

    All iterations of one quantity share their edges, so that its panels can be laid above each other.
    """
    found = trace(run)
    panels = []
    for quantity, values in (("logits", found.logits), ("couplings", found.couplings)):
        edges = _edges(values, bins)
        for column, chosen in (("true class", values[:, :, found.label, None]), ("all", values)):
            panels += [
                Histogram(number, quantity, column, edges, _counts(step, edges), _counts(step[found.alive], edges))
                for number, step in enumerate(chosen)
            ]
    return panels


def evolution_rows(run: Path | str, *, bins: int = 50) -> list[RunSummary]:
    """Give the histograms as a tidy table: a row for each bin, iterations from 1 as in figure 2."""
    return [
        {
            "iteration": panel.iteration + 1,
            "quantity": panel.quantity,
            "column": panel.column,
            "from": low,
            "to": high,
            "count": int(count),
            "of voting children": int(voting),
        }
        for panel in evolution(run, bins=bins)
        for low, high, count, voting in zip(
            panel.edges[:-1].tolist(),
            panel.edges[1:].tolist(),
            panel.counts.tolist(),
            panel.voting.tolist(),
            strict=True,
        )
    ]


def chosen_children(found: Trace, count: int = 3) -> list[int]:
    """Choose children that are alive and whose strongest parents differ, the most decided ones first."""
    last = found.logits[-1]
    decided = (last.amax(dim=1) - last.amin(dim=1)) * found.alive
    order = decided.argsort(descending=True, stable=True).tolist()
    winners: dict[int, int] = {}
    for child in order:
        winners.setdefault(int(last[child].argmax()), child)
    # A network may have fewer winners than children are wanted: the next most decided ones fill up.
    others = [child for child in order if child not in winners.values()]
    return [*winners.values(), *others][:count]


def rows(run: Path | str, children: Sequence[int] | None = None, *, count: int = 3) -> list[RunSummary]:
    """Give logits and couplings of a few children over their parents, at the last iteration (figure 4)."""
    found = trace(run)
    number = found.logits.shape[1]
    chosen = chosen_children(found, count) if children is None else list(children)
    for child in chosen:
        if not 0 <= child < number:
            raise InputError(f"child: expected 0 to {number - 1}, found {child}")
    return [
        {
            "child": child,
            "parent": parent,
            "logit": found.logits[-1, child, parent].item(),
            "coupling": found.couplings[-1, child, parent].item(),
        }
        for child in chosen
        for parent in range(found.logits.shape[2])
    ]


def _counts(values: Float[Tensor, "child parent"], edges: Float[Tensor, "edge"]) -> Float[Tensor, "bin"]:
    return torch.histogram(values.flatten(), edges).hist


def _edges(values: Float[Tensor, "*any"], bins: int) -> Float[Tensor, "edge"]:
    low, high = values.min().item(), values.max().item()
    if high - low < 1e-6:
        low, high = low - 0.5, high + 0.5
    edges = torch.linspace(low, high, bins + 1)
    edges[0], edges[-1] = min(low, edges[0].item()), max(high, edges[-1].item())  # rounding must lose no value
    return edges
