"""Weights behind constant multipliers, so that one learning rate suits every layer.

A layer with multiplier m stores W / m and computes with m times what it stores. Under Adam, whose steps have the size
of the learning rate η whatever the gradient, W then moves by m·η in a step: m is the layer's own learning rate, built
in. This is the idea of the maximal-update parametrization. Multipliers are powers of two: multiplying by them is exact,
so a network gives the same bits whether its multipliers are folded into the weights or not.

A state dict has the stored weights, and beside them the multiplier of each layer that has one. A state dict without it
(of an earlier version, or of another program) holds W itself, and is divided when it is loaded.
"""

import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

KEY = "multiplier"
"""The name of a layer's multiplier in its state dict."""

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def power_of_two(number: float) -> float:
    """Return the power of two that is nearest to a positive number on a logarithmic scale."""
    return 2.0 ** round(math.log2(number))


class ScaledWeights(nn.Module):
    """Base class of layers whose parameter `scaled_parameter` is stored divided by `multiplier`."""

    scaled_parameter = "weight"
    multiplier = 1.0

    @property
    def effective_weights(self) -> Tensor:
        """The weights that the layer computes with: `multiplier` times the stored parameter."""
        return getattr(self, self.scaled_parameter) * self.multiplier

    @torch.no_grad()
    def set_multiplier(self, multiplier: float) -> None:
        """Change the multiplier and divide the stored weights to match; what the layer computes stays the same."""
        getattr(self, self.scaled_parameter).mul_(self.multiplier / multiplier)
        self.multiplier = multiplier

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.multiplier != 1:
            destination[prefix + KEY] = torch.tensor(self.multiplier, device="cpu", dtype=torch.float32)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any, **settings: Any) -> None:
        theirs = state_dict.pop(prefix + KEY, None)
        factor = (1.0 if theirs is None else float(theirs)) / self.multiplier
        name = prefix + self.scaled_parameter
        if factor != 1 and name in state_dict:
            state_dict[name] = state_dict[name] * factor
        super()._load_from_state_dict(state_dict, prefix, *arguments, **settings)


def fold_multipliers(network: AnyModule) -> AnyModule:
    """Multiply every layer's stored weights by its multiplier, in place, and return the network.

    The network computes the same as before, bit by bit. `fit` and the exports fold multipliers. Do not fold them before
    training with your own optimizer and one learning rate.

    Args:
        network: Any module; it is changed in place.

    Example:
        >>> from maxmincaps import RoutedCapsules
        >>> layer = fold_multipliers(RoutedCapsules(64, 10))
        >>> layer.multiplier, layer.weights.equal(layer.effective_weights)
        (1.0, True)
    """
    for layer in network.modules():
        if isinstance(layer, ScaledWeights):
            layer.set_multiplier(1.0)
    return network
