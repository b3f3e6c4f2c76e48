"""Capsule networks with Max-Min normalization.

Names are loaded when they are first used, so that `import maxmincaps` and the command answer before torch loads.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmincaps.capsules.conv_capsules import ConvCapsules as ConvCapsules
    from maxmincaps.capsules.head import CapsuleHead as CapsuleHead
    from maxmincaps.capsules.layers import PrimaryCapsules as PrimaryCapsules
    from maxmincaps.capsules.layers import RoutedCapsules as RoutedCapsules
    from maxmincaps.capsules.losses import capsule_loss as capsule_loss
    from maxmincaps.capsules.losses import margin_loss as margin_loss
    from maxmincaps.capsules.multipliers import fold_multipliers as fold_multipliers
    from maxmincaps.capsules.network import CapsNet as CapsNet
    from maxmincaps.capsules.normalizations import NORMALIZATIONS as NORMALIZATIONS
    from maxmincaps.capsules.normalizations import Normalization as Normalization
    from maxmincaps.capsules.optim import parameter_groups as parameter_groups
    from maxmincaps.capsules.routing import RoutingStep as RoutingStep
    from maxmincaps.capsules.routing import route as route
    from maxmincaps.capsules.routing import routing_steps as routing_steps
    from maxmincaps.capsules.routing import squash as squash
    from maxmincaps.data.images import load as load
    from maxmincaps.errors import InputError as InputError
    from maxmincaps.export.foreign_weights import network_from_weights as network_from_weights
    from maxmincaps.recipe import Recipe as Recipe
    from maxmincaps.training.checkpoint import load_network as load_network
    from maxmincaps.training.classifier import CapsNetClassifier as CapsNetClassifier
    from maxmincaps.training.fit import fit as fit
    from maxmincaps.training.memory import keep_large_blocks as keep_large_blocks
    from maxmincaps.training.observer import CombinedObserver as CombinedObserver
    from maxmincaps.training.observer import NotebookProgress as NotebookProgress
    from maxmincaps.training.observer import Observer as Observer
    from maxmincaps.training.observer import TensorBoard as TensorBoard
    from maxmincaps.training.run import Run as Run

    __version__: str

_HOME = {
    "ConvCapsules": "capsules.conv_capsules",
    "CapsuleHead": "capsules.head",
    "PrimaryCapsules": "capsules.layers",
    "RoutedCapsules": "capsules.layers",
    "capsule_loss": "capsules.losses",
    "margin_loss": "capsules.losses",
    "fold_multipliers": "capsules.multipliers",
    "CapsNet": "capsules.network",
    "NORMALIZATIONS": "capsules.normalizations",
    "Normalization": "capsules.normalizations",
    "parameter_groups": "capsules.optim",
    "RoutingStep": "capsules.routing",
    "route": "capsules.routing",
    "routing_steps": "capsules.routing",
    "squash": "capsules.routing",
    "load": "data.images",
    "InputError": "errors",
    "Recipe": "recipe",
    "network_from_weights": "export.foreign_weights",
    "load_network": "training.checkpoint",
    "CapsNetClassifier": "training.classifier",
    "fit": "training.fit",
    "keep_large_blocks": "training.memory",
    "NotebookProgress": "training.observer",
    "Observer": "training.observer",
    "CombinedObserver": "training.observer",
    "Run": "training.run",
    "TensorBoard": "training.observer",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("maxmincaps")
    if name not in _HOME:
        raise AttributeError(f"maxmincaps has no {name!r}; it has {', '.join(_HOME)}")
    return getattr(import_module(f"maxmincaps.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
