"""The images that a run has seen: under the same name there may be others by now."""

from contextlib import suppress

from maxmincaps.data.images import Splits, splits
from maxmincaps.errors import InputError
from maxmincaps.training.run import Run


def images_seen(record: Run) -> Splits:
    """Load the images that a run was trained and tested on, or say that they are not there any more."""
    images = splits(record.recipe)
    refuse_other_images(record, images)
    return images


def refuse_other_images(record: Run, images: Splits) -> None:
    """Say it if these are not the images of a run: whoever goes on with it or measures it again would not notice.

    Of a folder that has got new pictures, some that a network was trained on may be test images now.
    """
    seen = None
    with suppress(InputError):  # there is no run yet, or what it said is lost
        seen = record.data.images_sha256
    if seen and seen != images.digest():
        raise InputError(
            f"{record.folder}: was trained on other images than {images.train.name} has now; bring those back first, "
            "or train in another folder"
        )
