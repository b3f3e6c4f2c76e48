"""Networks as the Hugging Face hub keeps them: a folder with config.json, model.safetensors and a model card."""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Self, cast

import torch
from huggingface_hub import PyTorchModelHubMixin, constants, hf_hub_download
from huggingface_hub.repocard import ModelCard
from pydantic import PositiveInt, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from maxmincaps.errors import InputError, one_line
from maxmincaps.recipe import NetworkSettings, in_words


def check_numbers(tensors: Mapping[str, Tensor], where: Path) -> None:
    """Refuse what is not a number: it would pass through every layer and come out as an answer."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise InputError(f"{where}: expected finite numbers in {name}, found {tensor.dtype}")
        if not tensor.float().isfinite().all():
            raise InputError(f"{where}: expected finite numbers in {name}, found NaN or infinity")


class _Config(NetworkSettings):
    """What config.json says."""

    image_shape: tuple[PositiveInt, PositiveInt, PositiveInt] = (1, 28, 28)
    classes: PositiveInt = 10


class OnHub(PyTorchModelHubMixin, library_name="maxmincaps", license="mit", tags=["capsule-networks"]):
    """The hub's `save_pretrained`, `from_pretrained` and `push_to_hub`, for weights that fit whole or not at all.

    A folder of one's own needs no network connection.
    """

    _cannot_be_saved = ""

    def has_no_config(self, why: str) -> None:
        """Refuse to be saved, as config.json could not say what this network is."""
        self._hub_mixin_config = None
        self._cannot_be_saved = why

    def save_pretrained(self, save_directory: str | Path, **settings: Any) -> str | None:
        """Write config.json, weights and model card into a folder; one that cannot be written so is left as it is."""
        self._is_savable(save_directory)  # asked here, as the mixin first removes the config.json of the folder
        return super().save_pretrained(save_directory, **settings)

    def push_to_hub(self, repo_id: str, **settings: Any) -> str:
        """Upload what `save_pretrained` writes; a network that cannot be written so makes no repository."""
        self._is_savable(repo_id)
        return super().push_to_hub(repo_id, **settings)

    def _is_savable(self, where: str | Path) -> None:
        if self._cannot_be_saved:
            raise InputError(f"{where}: {self._cannot_be_saved}")

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **settings: Any) -> Self:
        """Load a network from a folder or from the hub; `settings` come on top of its config.json."""
        try:
            return super().from_pretrained(pretrained_model_name_or_path, **settings)
        except InputError:
            raise
        except (ValueError, RecursionError, AttributeError) as error:  # of JSON, and of what is no table
            raise InputError(
                f"{pretrained_model_name_or_path}: its config.json cannot be read: {one_line(error)}"
            ) from None

    @classmethod
    def _from_pretrained(cls, *, model_id: str, map_location: str = "cpu", **settings: Any) -> Self:
        """Build what config.json describes and fill it with safetensors: nothing that is loaded can be executed."""
        where = {name: settings.pop(name) for name in _WHERE}
        if Path(model_id).is_dir():
            file = Path(model_id) / constants.SAFETENSORS_SINGLE_FILE
        else:
            file = Path(hf_hub_download(model_id, constants.SAFETENSORS_SINGLE_FILE, **where))
        network = cls._unfilled(settings, model_id)
        try:
            network.load_state_dict(load_file(file, device=map_location), assign=True)
        except FileNotFoundError:
            raise InputError(f"{file}: there is no such file") from None
        except (RuntimeError, SafetensorError, ValueError, KeyError, OSError) as error:
            found = one_line(error, 1000)
            raise InputError(f"{file}: does not hold the weights that config.json asks for: {found}") from None
        check_numbers(network.state_dict(), file)
        return cast(Self, network.eval())

    @classmethod
    def _unfilled(cls, settings: dict[str, Any], model_id: str) -> nn.Module:
        """Build without memory, so that a stranger's config.json cannot ask for more than its file holds."""
        own = {name: setting for name, setting in settings.items() if callable(setting)}
        try:
            named = _Config(**{name: setting for name, setting in settings.items() if name not in own})
            with torch.device("meta"):
                return cast(nn.Module, cls(**named.model_dump(exclude_unset=True), **own))
        except (ValueError, RuntimeError, ArithmeticError, TypeError) as error:
            found = in_words(error) if isinstance(error, ValidationError) else one_line(error)
            raise InputError(f"{model_id}: its config.json describes no network: {found}") from None

    def generate_model_card(self, *_: Any, **facts: Any) -> ModelCard:
        """Write the model card; `facts` are what a record knows and a network does not, such as its accuracy."""
        template = files("maxmincaps.capsules").joinpath("card.md.jinja").read_text(encoding="utf-8")
        settings = json.dumps(self._hub_mixin_config, indent=2)
        return ModelCard.from_template(
            self._hub_mixin_info.model_card_data, template_str=template, settings=settings, **facts
        )


_WHERE = ("revision", "cache_dir", "force_download", "local_files_only", "token")
