"""Laws of the measure of how a network takes overlapping images apart."""

import pytest
import torch
from torch.testing import assert_close

from maxmincaps import CapsNet, Recipe, fit, load
from maxmincaps.data.images import overlapping
from maxmincaps.errors import InputError
from maxmincaps.training.separation import (
    add_separation,
    bright_pixels,
    capsule_sums,
    read_separation,
    separation,
)
from tests.conftest import TINY

SMALL = {"image_shape": (1, 36, 36), "conv_channels": 4, "types": 2, "decoder": (8,)}


@pytest.fixture(scope="module")
def pairs():
    return overlapping(load("mnist-5k", "test").take(slice(0, 40)), torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "change", [{}, {"padding": "same"}, {"conv_stride": 2}, {"conv_kernel": 5, "primary_stride": 1}]
)
def test_the_bright_pixels_of_a_capsule_are_those_that_its_output_depends_on(pairs, change):
    network = CapsNet(**SMALL, **change)
    image = torch.rand(1, 1, 36, 36, requires_grad=True)
    parts = network.parts(image)
    found = bright_pixels(network, pairs.take(slice(0, 1)))
    for child in (0, parts.shape[1] // 3, parts.shape[1] - 1):
        (gradient,) = torch.autograd.grad(parts[0, child].sum(), image, retain_graph=True)
        places = (gradient[0, 0] != 0).nonzero()
        (top, left), (bottom, right) = places.amin(dim=0).tolist(), places.amax(dim=0).tolist()
        seen = pairs.objects[0, :, 0, top : bottom + 1, left : right + 1] > 127
        assert_close(found[0, :, child], seen.sum(dim=(1, 2)).float())


def by_hand(couplings, pixels, labels):
    """Return number of objects under a capsule and all measures of it, one capsule at a time."""
    most, objects = max(couplings), [couplings[label] for label in labels]
    others = max(value for parent, value in enumerate(couplings) if parent not in labels)
    under = [sum(pixels) > 0 and own >= 0.1 * sum(pixels) for own in pixels]
    first = max(range(len(couplings)), key=couplings.__getitem__)
    owners = [label for label, is_under in zip(labels, under, strict=True) if is_under]
    return sum(under), {
        "served": sum(value > most / 2 for value in couplings),
        "both_strongest": min(objects) > others,
        "owner_strongest": first in owners,
        "other_strongest": first in labels and first not in owners,
        "order_follows": (objects[0] - objects[1]) * (pixels[0] - pixels[1]) > 0,
    }


def test_the_sums_over_capsules_are_those_of_the_definition():
    generator = torch.Generator().manual_seed(0)
    couplings = torch.rand(6, 50, 4, generator=generator)
    pixels = torch.randint(-30, 40, (6, 2, 50), generator=generator).clamp(min=0).float()
    labels = torch.tensor([[0, 1], [3, 2], [1, 3], [2, 0], [0, 3], [1, 2]])
    active = torch.rand(6, 50, generator=generator) > 0.2
    found = capsule_sums(couplings, pixels, labels, active)
    wanted = {name: torch.zeros(3).double() for name in found}
    for image, child in active.nonzero().tolist():
        kind, values = by_hand(
            couplings[image, child].tolist(), pixels[image, :, child].tolist(), labels[image].tolist()
        )
        wanted["count"][kind] += 1
        for name, value in values.items():
            wanted[name][kind] += value
    assert min(wanted["count"]) > 10
    for name in ("count", "served", "both_strongest"):
        assert_close(found[name], wanted[name])
    for name, kind in (("owner_strongest", 1), ("other_strongest", 1), ("order_follows", 2)):
        assert_close(found[name][kind], wanted[name][kind])


def test_equal_coefficients_serve_every_parent_and_have_no_strongest(pairs):
    found = separation(CapsNet(**SMALL, normalization="uniform"), pairs)
    assert found.served[1:].tolist() == [10, 10]
    assert found.both_strongest[1:].tolist() == [0, 0]
    assert found.owner_strongest == found.order_follows == 0
    assert_close(found.share.sum().item(), 1.0)


def test_networks_without_receptive_fields_or_coefficients_are_not_measured(pairs):
    assert separation(CapsNet(**SMALL, head="linear"), pairs) is None
    assert separation(CapsNet(**SMALL, stem="deep"), pairs) is None
    assert separation(CapsNet(conv_channels=4, types=2), load("mnist-5k", "test")) is None


def test_a_run_on_overlapping_images_stores_the_measure_and_it_can_be_made_again(tmp_path):
    run = fit(Recipe(**{**TINY, "overlap": True}), tmp_path / "run")
    stored = read_separation(run.folder)
    (run.folder / "separation.safetensors").unlink()
    add_separation(run.folder)
    again = read_separation(run.folder)
    for name, value in vars(stored).items():
        assert torch.equal(value.nan_to_num(), getattr(again, name).nan_to_num()), name
    assert stored.objects.shape == stored.reconstructions.shape


def test_a_run_on_single_images_stores_none_and_is_refused(tmp_path):
    run = fit(Recipe(**TINY), tmp_path / "run")
    assert not (run.folder / "separation.safetensors").exists()
    with pytest.raises(InputError, match="overlapping"):
        add_separation(run.folder)
