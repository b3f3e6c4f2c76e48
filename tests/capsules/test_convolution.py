"""A strided convolution by each of its methods: the values and gradients of the direct one, and the rules of choice."""

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import conv2d

from maxmincaps.capsules.convolution import (
    METHODS,
    StridedConvolution,
    spectral_pays,
    strided_convolution,
    unfolding_pays,
)
from maxmincaps.capsules.phases import Geometry
from maxmincaps.errors import InputError
from tests.reference.convolution import convolution

OURS = ("spectral", "unfold")
PRIMARY = Geometry.of((20, 20), (9, 9), (2, 2), (0, 0))


@st.composite
def problems(draw: Callable, channels: int = 4) -> tuple:
    """Draw images, weight, bias, stride and padding that fit together, rows and columns independent of one another."""

    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    kernel, stride, padding = pair(1, 6), pair(1, 4), pair(0, 4)
    size = [draw(st.integers(max(1, kernel[axis] - 2 * padding[axis]), 12)) for axis in (0, 1)]
    batch, (channel, out) = draw(st.integers(1, 3)), pair(1, channels)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    shapes = (batch, channel, *size), (out, channel, *kernel), (out,)
    return *(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes), stride, padding


def with_gradients(convolve: Callable, images: Tensor, weight: Tensor, bias: Tensor | None, *rest: object) -> list:
    """Return the outputs, and the gradients of a random weighted sum of them."""
    leaves = [leaf.detach().requires_grad_() for leaf in (images, weight, bias) if leaf is not None]
    outputs = convolve(*leaves, *([None] if bias is None else []), *rest)
    target = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return [outputs.detach(), *torch.autograd.grad(outputs, leaves, target.to(outputs.dtype))]


def by(method: str) -> Callable:
    return lambda *arguments: strided_convolution(*arguments, method=method)


def assert_same(ours: list, theirs: list, tolerance: float = 1e-10) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


def random_layer(method: str, **settings: object) -> StridedConvolution:
    torch.manual_seed(0)
    return StridedConvolution(3, 5, 4, stride=2, padding=1, method=method, **settings)


def random_images(batch: int = 2, **settings: object) -> Tensor:
    return torch.randn(batch, 3, 9, 7, generator=torch.Generator().manual_seed(0), **settings)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(problem=problems())
def test_every_method_gives_what_the_definition_of_a_convolution_says(method: str, problem: tuple):
    assert_same([by(method)(*problem)], [convolution(*problem)])


@pytest.mark.parametrize("method", OURS)
@settings(max_examples=80)
@given(problem=problems(), biased=st.booleans())
def test_values_and_gradients_are_those_of_the_direct_convolution(method: str, problem: tuple, biased: bool):
    images, weight, bias, *rest = problem
    arguments = (images, weight, bias if biased else None, *rest)
    assert_same(with_gradients(by(method), *arguments), with_gradients(conv2d, *arguments))


@pytest.mark.parametrize("method", OURS)
@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1), ((3, 2), (0, 2)), (5, 3)])
def test_gradients_are_the_slopes_of_the_values(method: str, stride: object, padding: object):
    shapes = (1, 2, 6, 5), (2, 2, 4, 3), (2,)
    leaves = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]
    assert torch.autograd.gradcheck(lambda *given: strided_convolution(*given, stride, padding, method), leaves)


@settings(max_examples=20, derandomize=True)  # a bound on rounding errors: the same draws every time
@given(
    size=st.integers(10, 16),
    kernel=st.integers(3, 7),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    channels=st.tuples(st.integers(32, 64), st.integers(32, 64)),
    batch=st.integers(8, 16),
)
def test_where_sums_are_long_single_precision_is_within_twice_the_error_of_the_direct_convolution(
    size: int, kernel: int, stride: int, padding: int, channels: tuple[int, int], batch: int
):
    # For a single output the direct form is one short sum, and the spectral one is never chosen.
    assume((size + 2 * padding - kernel) // stride >= 3)
    torch.manual_seed(0)
    channel, out = channels
    singles = torch.randn(batch, channel, size, size + 2), torch.randn(out, channel, kernel, kernel), torch.randn(out)
    assert_within_twice_the_error(*singles, stride, padding)


def assert_within_twice_the_error(*problem: object) -> None:
    exact = with_gradients(conv2d, *(single.double() for single in problem[:3]), *problem[3:])
    ours, theirs = with_gradients(by("spectral"), *problem), with_gradients(conv2d, *problem)
    for truth, mine, other in zip(exact, ours, theirs, strict=True):
        assert (mine - truth).norm() <= 2 * (other - truth).norm()
        assert (mine - truth).norm() <= 1e-6 * truth.norm()


def test_the_same_holds_for_the_paper_s_primary_capsules():
    torch.manual_seed(0)
    singles = torch.randn(4, 256, 20, 20).relu(), torch.randn(64, 256, 9, 9) / 144, torch.randn(64)
    assert_within_twice_the_error(*singles, 2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_batches_of_any_size_even_none_have_values_and_gradients(method: str, batch: int):
    arguments = random_images(batch, dtype=torch.float64), *random_layer(method).double().parameters(), 2, 1
    assert_same(with_gradients(by(method), *arguments), with_gradients(conv2d, *arguments))


@pytest.mark.parametrize("method", OURS)
@pytest.mark.parametrize(
    "arranged",
    [
        lambda images: images.to(memory_format=torch.channels_last),
        lambda images: images.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1),
        lambda images: images.repeat_interleave(2, dim=3)[..., ::2],
        lambda images: images[:, :1].expand(-1, 3, -1, -1),
        lambda images: images.transpose(2, 3).contiguous().transpose(2, 3),
    ],
    ids=["channels last", "place by place", "gaps", "expanded", "columns first"],
)
def test_the_order_in_memory_does_not_matter(method: str, arranged: Callable):
    images, layer = arranged(random_images(dtype=torch.float64)), random_layer(method).double()
    weight = arranged(layer.weight) if layer.weight.shape[1] == 3 else layer.weight
    arguments = images, weight, layer.bias, 2, 1
    contiguous = images.contiguous(), weight.contiguous(), layer.bias, 2, 1
    assert_same(with_gradients(by(method), *arguments), with_gradients(conv2d, *contiguous))


def test_what_leaves_unfolding_enters_the_spectral_method_without_a_copy():
    first, second = (
        StridedConvolution(1, 8, 3, method="unfold"),
        StridedConvolution(8, 4, 3, stride=2, method="spectral"),
    )
    features = first(torch.randn(2, 1, 9, 9)).relu()
    assert features.permute(2, 3, 0, 1).is_contiguous()
    gradients: list[Tensor] = []
    features.register_hook(gradients.append)
    second(features).sum().backward()
    assert gradients[0].permute(2, 3, 0, 1).is_contiguous()


@pytest.mark.parametrize("needed", [(True, False), (False, True)], ids=["images only", "weight only"])
def test_a_gradient_that_is_not_needed_is_not_computed(needed: tuple[bool, bool], monkeypatch):
    images, weight = random_images(), random_layer("spectral").weight.detach()
    leaves = [leaf.requires_grad_(need) for leaf, need in zip((images, weight), needed, strict=True)]
    outputs, batches, multiply = strided_convolution(*leaves, None, 2, 1, "spectral"), [], torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda *pair, **out: batches.append(len(pair[0])) or multiply(*pair, **out))
    outputs.sum().backward()
    assert [leaf.grad is not None for leaf in leaves] == list(needed)
    geometry = Geometry.of((9, 7), (4, 4), (2, 2), (1, 1))
    # The transforms are batched products too, of far fewer matrices than there are planes.
    assert batches.count(geometry.planes) == len(geometry.phases()), "one product a phase, not two"


@pytest.mark.parametrize("method", METHODS)
def test_autocast_multiplies_in_bfloat16_as_an_ordinary_convolution_does(method: str):
    layer, images = random_layer(method), random_images().requires_grad_()
    exact = with_gradients(conv2d, images, layer.weight, layer.bias, 2, 1)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = layer(images)
    outputs.backward(
        torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).bfloat16()
    )
    assert outputs.dtype == torch.bfloat16
    found = [outputs.detach(), images.grad, layer.weight.grad, layer.bias.grad]
    assert [tensor.dtype for tensor in found[1:]] == [torch.float32] * 3
    for mine, other in zip(found, exact, strict=True):
        assert (mine - other).norm() < 0.02 * other.norm()


@pytest.mark.parametrize("method", OURS)
def test_weights_go_to_an_ordinary_convolution_and_back(method: str):
    ours, plain = random_layer(method), nn.Conv2d(3, 5, 4, stride=2, padding=1)
    plain.load_state_dict(ours.state_dict())
    again = random_layer(method)
    nn.init.zeros_(again.weight)
    again.load_state_dict(plain.state_dict())
    assert list(ours.state_dict()) == list(plain.state_dict())
    assert_same([ours(random_images()), again(random_images())], [plain(random_images())] * 2, 1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_copy_trains_without_changing_the_original(method: str):
    layer = random_layer(method)
    before, plain_copy = layer.weight.detach().clone(), copy.deepcopy(layer)
    plain_copy(random_images()).square().sum().backward()
    with torch.no_grad():
        plain_copy.weight -= plain_copy.weight.grad
    assert plain_copy.method == method
    assert torch.equal(layer.weight, before)
    assert layer.weight.grad is None
    assert not torch.equal(plain_copy.weight, before)


@pytest.mark.parametrize("method", METHODS)
def test_matrices_first_made_in_inference_mode_serve_training_too(method: str):
    layer, images = random_layer(method).double(), torch.randn(2, 3, 13, 11, dtype=torch.float64)
    with torch.inference_mode():
        inferred = layer(images)
    outputs = layer(images)
    outputs.sum().backward()
    assert_same([inferred.clone()], [outputs.detach()])


def test_spectral_pays_for_primary_caps_and_not_where_channels_or_images_are_few():
    assert spectral_pays(PRIMARY, batch=128, channel=256, out=256)
    assert spectral_pays(Geometry.of((16, 16), (9, 9), (2, 2), (0, 0)), batch=128, channel=256, out=512)
    assert not spectral_pays(PRIMARY, batch=1, channel=256, out=256)
    assert not spectral_pays(PRIMARY, batch=128, channel=4, out=256)
    assert not spectral_pays(PRIMARY, batch=128, channel=256, out=4)
    assert not spectral_pays(Geometry.of((28, 28), (9, 9), (1, 1), (0, 0)), batch=128, channel=1, out=256)
    assert not spectral_pays(Geometry.of((20, 20), (1, 1), (1, 1), (0, 0)), batch=128, channel=256, out=256)


@given(st.sampled_from(["cuda", "mps", "xpu", "meta"]), st.integers(1, 10_000), st.integers(1, 10_000))
def test_on_an_accelerator_only_the_direct_convolution_is_chosen(device: str, batch: int, channel: int):
    assert not spectral_pays(PRIMARY, batch, channel, channel, device)
    assert not unfolding_pays(PRIMARY, 1, channel, device)


def test_unfolding_pays_where_a_patch_is_not_much_larger_than_the_channels_it_becomes():
    first = Geometry.of((28, 28), (9, 9), (1, 1), (0, 0))
    assert unfolding_pays(first, channel=1, out=64)
    assert unfolding_pays(first, channel=3, out=256)
    assert not unfolding_pays(first, channel=1, out=16)


def test_auto_does_what_the_rules_say(monkeypatch: pytest.MonkeyPatch):
    used = []
    for method, name in (("spectral", "spectral_convolution"), ("unfold", "unfolded_convolution")):
        way = f"maxmincaps.capsules.convolution.{name}"
        outputs = torch.empty(1, 1, 64, 256)
        monkeypatch.setattr(way, lambda *_, method=method, outputs=outputs: used.append(method) or outputs)
    for channel, size, stride in ((256, 20, 2), (1, 28, 1), (15, 20, 2)):
        strided_convolution(torch.empty(64, channel, size, size), torch.empty(256, channel, 9, 9), None, stride)
    assert used == ["spectral", "unfold"]


def test_a_compiled_or_exported_network_holds_an_ordinary_convolution():
    exported = torch.export.export(random_layer("spectral"), (random_images(),), strict=False)
    assert [node.target for node in exported.graph.nodes if node.op == "call_function"] == [
        torch.ops.aten.conv2d.default
    ]


def test_wrong_settings_are_refused_in_one_line():
    with pytest.raises(InputError, match="no method of convolution is called 'fft'; there are auto, spectral"):
        StridedConvolution(1, 1, 3, method="fft")
    with pytest.raises(InputError, match="groups 1, dilation 1"):
        StridedConvolution(2, 2, 3, dilation=2)
    with pytest.raises(InputError, match="padding as a number"):
        StridedConvolution(2, 2, 3, padding="same")


@pytest.mark.parametrize("method", METHODS)
def test_an_image_smaller_than_the_kernel_is_refused_as_torch_refuses_it(method: str):
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        strided_convolution(torch.zeros(1, 1, 3, 3), torch.zeros(1, 1, 5, 5), method=method)
