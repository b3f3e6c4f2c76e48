"""Routing by compiled kernels: the values and gradients of the plain form, whatever the sizes and threads."""

import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmincaps import NORMALIZATIONS, RoutedCapsules
from maxmincaps.capsules import compiled
from maxmincaps.errors import InputError

pytest.importorskip("numba")


def routed(layer: RoutedCapsules, parts: torch.Tensor) -> list[torch.Tensor]:
    """Return every iteration's logits and poses, and the gradients of parts and weights."""
    parts = parts.detach().requires_grad_()
    steps = list(layer.steps(parts))
    weighting = torch.linspace(-1, 2, steps[-1].poses.numel()).reshape(steps[-1].poses.shape)
    gradients = torch.autograd.grad((steps[-1].poses * weighting).sum(), (parts, layer.weights))
    return [*(tensor for step in steps for tensor in (step.logits, step.poses.detach())), *gradients]


def plainly(layer: RoutedCapsules, parts: torch.Tensor) -> list[torch.Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "suits", lambda *_: False)
        return routed(layer, parts)


@given(
    sizes=st.tuples(*(st.integers(1, most) for most in (7, 19, 5, 9, 6))),
    name=st.sampled_from(["softmax", "adjusted-log", "uniform"]),
    seed=st.integers(0, 999),
)
@settings(max_examples=40, deadline=None)
def test_compiled_routing_is_the_plain_one(sizes, name, seed):
    torch.manual_seed(seed)
    batch, children, parents, pose, part = sizes
    layer = RoutedCapsules(children, parents, part, pose, normalization=name)
    parts = torch.randn(batch, children, part)
    assert compiled.suits(parts, layer.weights)
    for mine, other in zip(routed(layer, parts), plainly(layer, parts), strict=True):
        assert mine.shape == other.shape
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4 * max(1.0, other.abs().max().item()))


# "sum" divides by sums near zero, which amplify rounding errors without bound.
@pytest.mark.parametrize("name", [name for name in NORMALIZATIONS if name != "sum"])
def test_every_normalization_routes_the_same_way_in_the_network_of_a_quarter_size(name):
    torch.manual_seed(0)
    layer, parts = RoutedCapsules(288, 10, normalization=name), torch.randn(9, 288, 8) / 8
    with torch.no_grad():
        mine = layer(parts)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(compiled, "suits", lambda *_: False)
        other = layer(parts)
    torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_children_of_16_bits_are_routed_in_32_bits():
    torch.manual_seed(0)
    layer, parts = RoutedCapsules(9, 3), torch.randn(4, 9, 8).bfloat16()
    *mine, grad_parts, _ = routed(layer, parts)
    *other, other_grad_parts, _ = plainly(layer, parts)
    assert grad_parts.dtype == torch.bfloat16
    assert mine[-1].dtype == torch.float32
    torch.testing.assert_close(mine[-1], other[-1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(grad_parts, other_grad_parts, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("wrong", [torch.rand(4, 9, 1), torch.rand(4, 8, 3), torch.rand(4, 9, 3).double()])
def test_coefficients_of_another_shape_or_dtype_are_refused(wrong):
    votes = compiled.CompiledVotes(torch.randn(4, 9, 8), RoutedCapsules(9, 3).weights)
    with pytest.raises(InputError, match="normalization"):
        votes.weighted_sum(wrong)


def test_the_number_of_threads_does_not_change_the_bits():
    torch.manual_seed(0)
    layer, parts = RoutedCapsules(40, 5, 8, 16), torch.randn(7, 40, 8)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            products = compiled.CompiledVotes(parts, layer.weights)
            couplings = torch.linspace(0, 1, 7 * 40 * 5).reshape(7, 40, 5)
            sums = products.weighted_sum(couplings)
            results.append((sums, products.agreement(sums), *compiled.gradients(sums, couplings, parts, layer.weights)))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(map(torch.equal, results[0], other))


def test_kernels_take_only_ordinary_tensors_of_32_bits_on_a_cpu():
    tensor = torch.rand(2, 3)
    assert compiled.suits(tensor, torch.nn.Parameter(tensor))
    assert not compiled.suits(tensor, tensor.double())
    assert not compiled.suits(tensor.bfloat16())
    assert not compiled.suits(tensor.to("meta"))
    assert not compiled.suits(torch.rand(0, 3))
    assert not compiled.suits(tensor.as_subclass(type("Wrapped", (torch.Tensor,), {})))


def test_without_numba_the_plain_form_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    compiled.load_kernels.cache_clear()
    try:
        assert not compiled.suits(torch.rand(2, 3))
        assert RoutedCapsules(6, 2)(torch.rand(2, 6, 8)).shape == (2, 2, 16)
    finally:
        compiled.load_kernels.cache_clear()
