"""The images of a run: found again from any folder, and compared with those that it was trained on."""

from contextlib import suppress
from pathlib import Path

from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.images import Splits, splits
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.training.run import Run


def images_seen(run: Run, dataset: Path | str | None = None) -> Splits:
    """Load the images that a run was trained and tested on.

    Args:
        run: A run folder.
        dataset: Where the images are now. Default: where they were when the run was trained.

    Raises:
        InputError: If the images are not found, or if they are not those of the run.
    """
    return load_images(run.recipe, run, dataset)


def load_images(recipe: Recipe, run: Run, dataset: Path | str | None = None) -> Splits:
    """Load the images of a recipe for a new run or for one that was started before; see `images_seen`."""
    images = splits(recipe.with_changes(dataset=str(dataset or _dataset_path(recipe, run))))
    _refuse_other_images(run, images)
    return images


def _dataset_path(recipe: Recipe, run: Run) -> str:
    """Return the dataset's name, or the path of the user's own images. A relative path may be of another folder."""
    if recipe.dataset in DATASETS:
        return recipe.dataset
    stored = None
    with suppress(InputError):  # there is no run yet, or data.json is lost
        stored = run.data.dataset_path
    if stored and Path(stored).exists():
        return stored
    if stored and not Path(recipe.dataset).exists():
        raise InputError(f"{run.folder}: its images are not at {stored} any more; pass --dataset PATH")
    return recipe.dataset


def _refuse_other_images(run: Run, images: Splits) -> None:
    """Refuse images that are not those of the run: test images of a changed folder may have been trained on."""
    seen = None
    with suppress(InputError):  # there is no run yet, or data.json is lost
        seen = run.data.images_sha256
    if seen and seen != images.digest():
        raise InputError(
            f"{run.folder}: was trained on other images than {images.train.name} has now; bring those back first, "
            "or train in another folder"
        )
