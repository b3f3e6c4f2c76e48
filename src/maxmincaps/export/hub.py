"""Networks as folders of the Hugging Face hub: config.json, model.safetensors and a model card.

`CapsNet.save_pretrained`, `push_to_hub` and `from_pretrained` call the functions of this file. A local folder needs no
network connection, and nothing that is loaded can be executed.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from huggingface_hub import HfApi, ModelCard, ModelCardData, constants, get_session, hf_hub_download
from pydantic import PositiveInt, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from maxmincaps.capsules.multipliers import fold_multipliers
from maxmincaps.capsules.network import CapsNet
from maxmincaps.errors import InputError, one_line
from maxmincaps.files import check_regular, read_table
from maxmincaps.recipe import NetworkSettings, in_words
from maxmincaps.training.checkpoint import check_finite

CONFIG, WEIGHTS, CARD = constants.CONFIG_NAME, constants.SAFETENSORS_SINGLE_FILE, constants.REPOCARD_NAME
REACHED_WITHIN_S = 5
"""If the hub does not answer within so many seconds, only files that were downloaded before are used."""
DESCRIPTIONS = ("id2label", "label2id")
"""Entries of config.json that describe the classes and are no settings of the network."""


class _Config(NetworkSettings):
    """The settings in config.json."""

    image_shape: tuple[PositiveInt, PositiveInt, PositiveInt] = (1, 28, 28)
    classes: PositiveInt = 10


def save(network: CapsNet, folder: Path | str, card_facts: Mapping[str, Any] | None = None) -> Path:
    """Write config.json, weights and model card into a folder, and return the folder.

    Args:
        network: Any `CapsNet` whose normalization has a name. Of others nothing is written.
        folder: Where to write; it is created if it does not exist.
        card_facts: What the model card should say beyond the settings, such as `accuracy` (see card.md.jinja).
    """
    _check_savable(network, folder)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    folded = fold_multipliers(deepcopy(network))  # so that other programs need not know of multipliers
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in folded.state_dict().items()}
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    (folder / CONFIG).write_text(_config_json(network) + "\n", encoding="utf-8")
    model_card(network, card_facts or {}).save(folder / CARD)
    return folder


def push(
    network: CapsNet,
    repo_id: str,
    *,
    card_facts: Mapping[str, Any] | None = None,
    private: bool | None = None,
    token: str | None = None,
    **settings: Any,
) -> Any:
    """Upload what `save` writes to a repository of the hub, which is created if it does not exist.

    Args:
        network: Any `CapsNet` whose normalization has a name; otherwise no repository is made.
        repo_id: The repository, as in "you/capsules".
        card_facts: See `save`.
        private: Whether a new repository is private.
        token: The access token. Default: the one that `hf auth login` stored.
        **settings: Further arguments of `HfApi.upload_folder`, such as `commit_message`. Its result is returned.
    """
    _check_savable(network, repo_id)
    api = HfApi(token=token)
    repository = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    with TemporaryDirectory() as folder:
        save(network, folder, card_facts)
        return api.upload_folder(repo_id=repository, folder_path=folder, **settings)


def load(name: str | Path, *, map_location: str = "cpu", where: Mapping[str, Any], **settings: Any) -> CapsNet:
    """Build the network that config.json describes and load its weights.

    The network is built without memory first, so a config.json cannot request more than the weights file holds.

    Args:
        name: A folder, or a repository of the hub.
        map_location: The device for the weights.
        where: Arguments of `hf_hub_download`, such as `revision` and `token`.
        **settings: Settings of `CapsNet` that override those of config.json.

    Raises:
        InputError: If config.json or the weights cannot be read, or do not fit together.
    """
    config, weights = _files(name, where)
    stored = {name: setting for name, setting in read_table(config).items() if name not in DESCRIPTIONS}
    network = _unfilled({**stored, **settings}, config)
    try:
        check_regular(weights)
        network.load_state_dict(load_file(weights, device=map_location), assign=True)
    except FileNotFoundError:
        raise InputError(f"{weights}: there is no such file") from None
    except (RuntimeError, SafetensorError, ValueError, KeyError, OSError) as error:
        found = one_line(error, 1000)
        raise InputError(f"{weights}: does not hold the weights that config.json asks for: {found}") from None
    check_finite(network.state_dict(), weights)
    return network.eval()


def model_card(network: CapsNet, facts: Mapping[str, Any]) -> ModelCard:
    """Return the model card; `facts` are what a run knows and a network does not, such as its accuracy."""
    template = files("maxmincaps.export").joinpath("card.md.jinja").read_text(encoding="utf-8")
    metrics = facts.get("metrics")
    data = ModelCardData(
        library_name="maxmincaps",
        license="mit",
        tags=["capsule-networks"],
        pipeline_tag="image-classification",
        model_name=facts.get("title", "A capsule network") if metrics else None,
        eval_results=metrics,
    )
    return ModelCard.from_template(data, template_str=template, settings=_config_json(network), **facts)


def _check_savable(network: CapsNet, where: str | Path) -> None:
    if network.cannot_be_saved:
        raise InputError(f"{where}: {network.cannot_be_saved}")


def _config_json(network: CapsNet) -> str:
    return json.dumps(network.config, indent=2, sort_keys=True)


def _files(name: str | Path, where: Mapping[str, Any]) -> list[Path]:
    """Return config.json and weights of a folder or of a repository, from the hub or from its cache on this machine."""
    if Path(name).is_dir():
        return [Path(name) / CONFIG, Path(name) / WEIGHTS]
    try:
        get_session().head(constants.ENDPOINT, timeout=REACHED_WITHIN_S)
    except Exception:  # of the library below, which differs by version
        where = {**where, "local_files_only": True}  # otherwise it would retry for half a minute
    return [Path(hf_hub_download(str(name), file, **where)) for file in (CONFIG, WEIGHTS)]


def _unfilled(settings: dict[str, Any], path: Path) -> CapsNet:
    functions: dict[str, Any] = {name: setting for name, setting in settings.items() if callable(setting)}
    try:
        named = _Config(**{name: setting for name, setting in settings.items() if name not in functions})
        with torch.device("meta"):
            return CapsNet(**named.model_dump(exclude_unset=True), **functions)
    except (ValueError, RuntimeError, ArithmeticError, TypeError) as error:
        found = in_words(error) if isinstance(error, ValidationError) else one_line(error)
        raise InputError(f"{path}: its config.json describes no network: {found}") from None
