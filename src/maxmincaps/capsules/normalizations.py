"""How one child's logits over its parents become its routing coefficients (section 2 and Table 4 of the paper).

Each function takes logits `(…, parent)` and returns routing coefficients (couplings) of the same shape, **across the
parents of one child**. A child whose logits are all equal, such as an inactive one, gets a defined value: never NaN or
infinity. Routing keeps children innermost in memory; the functions leave them there and compute along them.
"""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from maxmincaps.capsules.shapes import Couplings, Logits
from maxmincaps.errors import InputError, check_name


def softmax(logits: Logits) -> Couplings:
    """Divide one unit among the parents (equation 1)."""
    # Along the children, innermost, torch is twenty times as fast as along a few parents.
    parents = -min(2, logits.dim())
    return logits.transpose(-1, parents).softmax(dim=parents).transpose(-1, parents)


def max_min(logits: Logits, low: float = 0.0, high: float = 1.0) -> Couplings:
    """Stretch each child's logits onto [low, high] (equation 2); equal logits give `low`."""
    if low >= high:
        raise InputError(f"max-min: expected a low below high, found {low} and {high}")
    above = _above_smallest(logits)
    couplings = above / (_or_one(above.amax(dim=-1, keepdim=True)) / (high - low))
    return couplings + low if low else couplings


def winner_take_all(logits: Logits) -> Couplings:
    """Return 1 for the parent with the largest logit (the first of equals) and 0 for all others."""
    # As `argmax` would, but it is slow across a few parents.
    parents = torch.arange(logits.shape[-1], dtype=torch.int32, device=logits.device)
    winners = torch.where(logits == logits.amax(dim=-1, keepdim=True), parents, len(parents))
    return (winners == winners.amin(dim=-1, keepdim=True)).to(logits.dtype)


def sum_(logits: Logits) -> Couplings:
    """Divide by the sum over the parents; where that is zero, return 1/parents."""
    total = logits.sum(dim=-1, keepdim=True)
    vanishes = total.abs() < max(1e-12, torch.finfo(logits.dtype).tiny)
    return torch.where(vanishes, 1.0 / logits.shape[-1], logits / torch.where(vanishes, 1.0, total))


def centered_max_min(logits: Logits) -> Couplings:
    """Centre on the mean and divide by the range: inside [−1, 1]; equal logits give 0."""
    # Counted from the smallest, equal logits give exactly 0, which the mean of equal numbers need not.
    above = _above_smallest(logits)
    return (above - above.mean(dim=-1, keepdim=True)) / _or_one(above.amax(dim=-1, keepdim=True))


def z_score(logits: Logits) -> Couplings:
    """Centre on the mean and divide by the population's standard deviation; equal logits give 0."""
    # Divided by the range first, the squares can neither overflow nor vanish, whatever the logits' size.
    centred = centered_max_min(logits)
    return centred / _or_one(centred.square().mean(dim=-1, keepdim=True)).sqrt()


def adjusted_log(logits: Logits) -> Couplings:
    """Return log(1 + b − min b)."""
    return torch.log1p(_above_smallest(logits))


def leaky_softmax(logits: Logits) -> Couplings:
    """Softmax with one more parent, "none of the above", whose logit is zero and whose share is dropped (Sabour)."""
    none_of_them = logits.new_zeros((*logits.shape[:-1], 1))
    return softmax(torch.cat([logits, none_of_them], dim=-1))[..., :-1]


def _above_smallest(logits: Logits) -> Logits:
    return logits - logits.amin(dim=-1, keepdim=True)


def _or_one(divisor: Logits) -> Logits:
    """Replace zero divisors by 1, so that 0/0 is 0 in value and in gradient.

    Divisors below 4e-31 (in single precision) count as zero: dividing by them, or by their square, would overflow.
    """
    return torch.where(divisor > torch.finfo(divisor.dtype).tiny ** 0.8, divisor, 1.0)


@dataclass(frozen=True)
class Normalization:
    """A function from logits to routing coefficients (couplings), and the coefficients of the first iteration.

    Args:
        function: Takes logits of (…, parent) and returns coefficients of the same shape. It gets a copy of the logits,
            so it may change them in place. None is the control whose coefficients stay at their start.
        start: The coefficients of the first iteration, or a function from the number of parents to them.

    Example:
        >>> NORMALIZATIONS["max-min"](torch.tensor([1.0, 2.0, 5.0]))
        tensor([0.0000, 0.2500, 1.0000])
        >>> Normalization(torch.sigmoid, start=0.5)(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    function: Callable[..., Couplings] | None
    start: float | Callable[[int], float] = 1.0

    def __call__(self, logits: Logits) -> Couplings:
        """Normalize each child's logits across its parents."""
        if self.function is None:
            return torch.full_like(logits, self.start_for(logits.shape[-1]))
        # The functions of this file change nothing in place, and need no copy.
        is_own = any(self._bare_function is function for function in OWN_FUNCTIONS)
        return self.function(logits if is_own else logits.clone())

    @property
    def name(self) -> str:
        """Its name in `NORMALIZATIONS`, or else that of its function."""
        function = self._bare_function
        for name, normalization in NORMALIZATIONS.items():
            if normalization.function is function:
                return name
        return getattr(function, "__name__", type(function).__name__)

    @property
    def _bare_function(self) -> Callable[..., Couplings] | None:
        return self.function.func if isinstance(self.function, partial) else self.function

    def start_for(self, parents: int) -> float:
        """Return the coefficients of the first iteration for a number of parents."""
        return self.start(parents) if callable(self.start) else self.start

    def with_settings(self, start: float | None = None, **settings: float | None) -> "Normalization":
        """Return a copy with another start value or other settings.

        Args:
            start: The coefficients of the first iteration. Default: unchanged.
            **settings: Arguments of the function, such as `low` and `high` of Max-Min; None leaves one unchanged.

        Raises:
            InputError: If the function has no such argument.
        """
        settings = {name: value for name, value in settings.items() if value is not None}
        accepted = _settings_of(self.function) if self.function and settings else []
        for name in settings:
            if name not in accepted:
                raise InputError(
                    f"this normalization has no {name!r} to set; it has {', '.join(accepted) or 'no settings'}"
                )
        changed = replace(self, function=partial(self.function, **settings)) if self.function and settings else self
        return changed if start is None else replace(changed, start=start)

    def having(self, start: float | None = None, **settings: float | None) -> "Normalization":
        """Return `with_settings` of the same arguments; deprecated."""
        warnings.warn("Normalization.having is now with_settings", DeprecationWarning, stacklevel=2)
        return self.with_settings(start, **settings)


def _settings_of(function: Callable[..., Couplings]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)[1:]
    except ValueError:  # of a built-in function, such as torch.sigmoid
        return []


# Functions with names, as a network with a lambda in it cannot be pickled.
def _equal_share(parents: int) -> float:
    return 1 / parents


def _equal_leaky_share(parents: int) -> float:
    return 1 / (parents + 1)


NORMALIZATIONS: dict[str, Normalization] = {
    "softmax": Normalization(softmax, start=_equal_share),
    "max-min": Normalization(max_min),
    "winner-take-all": Normalization(winner_take_all),
    "sum": Normalization(sum_),
    "centered-max-min": Normalization(centered_max_min),
    "z-score": Normalization(z_score),
    "adjusted-log": Normalization(adjusted_log),
    "leaky-softmax": Normalization(leaky_softmax, start=_equal_leaky_share),
    "uniform": Normalization(None),
}
"""Every normalization by name. `NORMALIZATIONS["cubed"] = Normalization(lambda logits: logits**3)` adds your own."""

OWN_FUNCTIONS = tuple(normalization.function for normalization in NORMALIZATIONS.values())
"""Functions that are known to leave the logits as they are."""

NormalizationChoice = str | Normalization | Callable[[Logits], Couplings]
"""A name from the table, a `Normalization`, or any function of logits (which then starts at 1.0)."""


def normalization_of(choice: Any) -> Normalization:
    """Return the `Normalization` of a name, of a function, or of itself."""
    if isinstance(choice, Normalization):
        return choice
    if isinstance(choice, str):
        return NORMALIZATIONS[check_name(choice, NORMALIZATIONS, "normalization")]
    if callable(choice):
        return Normalization(choice)
    raise InputError(f"expected a normalization (a name, a function or a Normalization), found {type(choice).__name__}")
