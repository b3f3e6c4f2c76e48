"""Layer-wise learning rates for capsule layers, as parameter groups of any optimizer."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from maxmincaps.capsules.layers import PrimaryCapsules, RoutedCapsules
from maxmincaps.errors import InputError, check_name


class LayerRates(NamedTuple):
    """A rule for initial values and learning rates; docs/training.md has the measurements."""

    primary_fan_in: int
    """PrimaryCaps learns at the full rate up to this fan-in, and more slowly the larger its fan-in is."""
    vote_fan_in: int
    """The same for W, whose inputs are smaller because they are squashed."""
    vote_size: float
    """Factor on W's initial σ. With 1, a parent's weighted sum is about as large as a child's pose, per component."""

    def primary_rate(self, layer: PrimaryCapsules) -> float:
        """Return the rate of PrimaryCaps as a multiple of the learning rate."""
        return min(1.0, self.primary_fan_in / layer.convolution.fan_in)

    def vote_rate(self, layer: RoutedCapsules) -> float:
        """Return the rate of W as a multiple of the learning rate."""
        # A parent's sum contains W times the coefficients: the smaller these are, the larger W's steps must be.
        return min(1.0, self.vote_fan_in / layer.fan_in) / layer.typical_couplings().abs().mean().item()

    def vote_sigma(self, layer: RoutedCapsules) -> float:
        """Return the standard deviation of W's initial values."""
        return self.vote_size / (layer.fan_in**0.5 * layer.typical_couplings().square().mean().sqrt().item())


LAYER_RATES = {"fast": LayerRates(6_000, 30_000, 1.0), "slow": LayerRates(21_000, 400, 0.05)}
"""The rules by name: fast for little data or time, slow for much."""


def parameter_groups(
    model: nn.Module,
    lr: float,
    *,
    layer_rates: str = "fast",
    scale: Mapping[str, float] | None = None,
    freeze: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Return parameter groups with the layer-wise learning rates that `fit` uses, for Adam and its relatives.

    Capsule layers learn with any optimizer and one learning rate. These groups make them learn faster, if the learning
    rate rises over the first 50 steps or so. Parameters of other modules keep the learning rate `lr`.

    Args:
        model: Any module.
        lr: The learning rate.
        layer_rates: The rule, a name of `LAYER_RATES`: "fast" or "slow".
        scale: Factors on the learning rate of parts of the model, by the name of a module or parameter.
        freeze: Names of modules or parameters to leave out, so that the optimizer does not change them.

    Returns:
        Groups with `name`, `params`, `lr`, and `rate`, which is `lr` as a multiple of the learning rate. A model
        without capsule layers has one group.

    Raises:
        InputError: If no parameter has a name in `scale` or `freeze`.

    Example:
        >>> import torch
        >>> from maxmincaps import CapsNet
        >>> network = CapsNet(conv_channels=8, types=2)
        >>> groups = parameter_groups(network, lr=1e-3, scale={"decoder": 0.1}, freeze=["conv1"])
        >>> optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    """
    rule = LAYER_RATES[check_name(layer_rates, LAYER_RATES, "rule of layer-wise rates")]
    special = {id(parameter): (name, rate) for name, parameter, rate in _capsule_rates(model, rule)}
    scale, freeze, used = dict(scale or {}), list(freeze), set()
    groups: dict[tuple[str, float], list[nn.Parameter]] = {("others", 1.0): []}
    for name, parameter in model.named_parameters():
        label, rate = special.get(id(parameter), ("others", 1.0))
        parts = {part for part in (*scale, *freeze) if name == part or name.startswith(f"{part}.")}
        used |= parts
        for part in parts & scale.keys():
            rate *= scale[part]
        if not parts.intersection(freeze):
            groups.setdefault((label, rate), []).append(parameter)
    if unused := [part for part in (*scale, *freeze) if part not in used]:
        raise InputError(f"parameter_groups: the model has no parameter in {', '.join(map(repr, unused))}")
    return [
        {"name": name, "params": parameters, "lr": lr * rate, "rate": rate}
        for (name, rate), parameters in groups.items()
        if parameters
    ]


def _capsule_rates(model: nn.Module, rule: LayerRates) -> Iterator[tuple[str, Tensor, float]]:
    """Yield layer name, parameter and rate for all parameters whose rate differs from that of others."""
    for name, layer in model.named_modules():
        if isinstance(layer, PrimaryCapsules):
            rate = rule.primary_rate(layer)
            yield name, layer.convolution.weight, rate / layer.convolution.multiplier
            if layer.convolution.bias is not None:
                yield name, layer.convolution.bias, rate
        elif isinstance(layer, RoutedCapsules):
            yield name, layer.weights, rule.vote_rate(layer) / layer.multiplier
