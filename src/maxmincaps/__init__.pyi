"""The public names and where they are defined. `__init__.py` reads this file, and so do type checkers."""

from .capsules.conv_capsules import ConvCapsules as ConvCapsules
from .capsules.head import CapsuleHead as CapsuleHead
from .capsules.layers import PrimaryCapsules as PrimaryCapsules
from .capsules.layers import RoutedCapsules as RoutedCapsules
from .capsules.losses import capsule_loss as capsule_loss
from .capsules.losses import margin_loss as margin_loss
from .capsules.multipliers import fold_multipliers as fold_multipliers
from .capsules.network import CapsNet as CapsNet
from .capsules.normalizations import NORMALIZATIONS as NORMALIZATIONS
from .capsules.normalizations import Normalization as Normalization
from .capsules.optim import parameter_groups as parameter_groups
from .capsules.routing import RoutingStep as RoutingStep
from .capsules.routing import route as route
from .capsules.routing import routing_steps as routing_steps
from .capsules.routing import squash as squash
from .data.images import load as load
from .errors import InputError as InputError
from .export.foreign_weights import network_from_weights as network_from_weights
from .recipe import Recipe as Recipe
from .training.checkpoint import load_network as load_network
from .training.classifier import CapsNetClassifier as CapsNetClassifier
from .training.environment import keep_large_blocks as keep_large_blocks
from .training.fit import fit as fit
from .training.observer import CombinedObserver as CombinedObserver
from .training.observer import NotebookProgress as NotebookProgress
from .training.observer import Observer as Observer
from .training.observer import TensorBoard as TensorBoard
from .training.run import Run as Run

__version__: str
