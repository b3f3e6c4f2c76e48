"""Laws of convolutional capsules: the literal procedure, memory in pieces, stacks and residual connections."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from maxmincaps.capsules import conv_capsules
from maxmincaps.capsules.conv_capsules import ConvCapsules
from maxmincaps.capsules.layers import PrimaryCapsules, RoutedCapsules
from maxmincaps.capsules.normalizations import NORMALIZATIONS
from maxmincaps.errors import InputError
from tests.reference.conv_capsules import conv_capsules as literal_conv_capsules

TIES_FREE = ("softmax", "max-min", "centered-max-min", "z-score", "adjusted-log", "leaky-softmax", "uniform")


@st.composite
def geometries(draw):
    """Kernel, stride, padding, rows and columns of which at least one window fits."""
    kernel, stride, padding = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(0, 1))
    smallest = max(1, kernel - 2 * padding)
    return kernel, stride, padding, draw(st.integers(smallest, 4)), draw(st.integers(smallest, 4))


def grid_and_layer(geometry, seed, **routing):
    kernel, stride, padding, rows, columns = geometry
    torch.manual_seed(seed)
    layer = ConvCapsules(2, 3, 2, 3, kernel=kernel, stride=stride, padding=padding, **routing).double()
    if routing["normalization"] == "sum":  # sums near zero amplify rounding without bound, in both
        nn.init.uniform_(layer.routed.weights, 0.1, 1.0)
    grid = torch.rand(2, 2, rows, columns, 2, dtype=torch.float64, requires_grad=True)
    return grid, layer


def compare_with_the_literal_procedure(grid, layer, geometry, r, name, full=False):
    kernel, stride, padding, _, _ = geometry
    votes_weights = effective_weights(layer)
    literal = torch.stack(
        [literal_conv_capsules(image, votes_weights, kernel, stride, padding, r, name, full) for image in grid]
    )
    ours = layer(grid)
    torch.testing.assert_close(ours, literal, rtol=1e-8, atol=1e-10)
    factors = torch.linspace(1, 2, ours.numel(), dtype=ours.dtype).reshape(ours.shape)
    wanted = (grid, layer.routed.weights)
    expected = torch.autograd.grad((literal * factors).sum(), wanted)
    found = torch.autograd.grad((ours * factors).sum(), wanted)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)


def effective_weights(layer):
    return layer.routed.effective_weights


@pytest.mark.parametrize("name", NORMALIZATIONS)
@given(geometry=geometries(), r=st.integers(1, 3), seed=st.integers(0, 1000))
@settings(max_examples=4)
def test_every_place_is_routed_by_the_papers_procedure(name, geometry, r, seed):
    grid, layer = grid_and_layer(geometry, seed, normalization=name, iterations=r)
    compare_with_the_literal_procedure(grid, layer, geometry, r, name)


@pytest.mark.parametrize("name", TIES_FREE)
@given(geometry=geometries(), seed=st.integers(0, 1000))
@settings(max_examples=3)
def test_full_backpropagation_is_autograd_on_the_literal_procedure(name, geometry, seed):
    kernel, stride, _, rows, columns = geometry
    geometry = (min(kernel, rows, columns), stride, 0, rows, columns)  # zero capsules have ties, whose slope is free
    grid, layer = grid_and_layer(geometry, seed, normalization=name, iterations=2, full_backpropagation=True)
    compare_with_the_literal_procedure(grid, layer, geometry, 2, name, full=True)


@given(geometry=geometries(), full=st.booleans(), bytes_of_a_piece=st.sampled_from([1, 500, 2000]))
@settings(max_examples=8)
def test_pieces_give_the_values_and_gradients_of_the_whole(geometry, full, bytes_of_a_piece):
    grid, layer = grid_and_layer(geometry, 0, normalization="max-min", iterations=3, full_backpropagation=full)
    whole = layer(grid)
    expected = torch.autograd.grad(whole.square().sum(), (grid, layer.routed.weights))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conv_capsules, "PIECE_BYTES", bytes_of_a_piece)
        pieces = layer(grid)
        found = torch.autograd.grad(pieces.square().sum(), (grid, layer.routed.weights))
    torch.testing.assert_close(pieces, whole)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("full", [False, True])
def test_what_backward_keeps_does_not_grow_with_the_windows(monkeypatch, full):
    """In pieces, the graph keeps the grid and the result; the windows alone are nine times the grid."""
    monkeypatch.setattr(conv_capsules, "PIECE_BYTES", 20_000)
    layer = ConvCapsules(4, 4, 4, 4, kernel=3, padding=1, full_backpropagation=full)
    grid = torch.rand(4, 4, 12, 12, 4, requires_grad=True)
    kept = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: kept.setdefault(tensor.untyped_storage().data_ptr(), tensor), lambda tensor: tensor
    ):
        layer(grid)
    bytes_kept = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    assert bytes_kept < 4 * grid.nbytes


def test_a_window_as_large_as_the_grid_is_a_routed_layer():
    torch.manual_seed(0)
    layer = ConvCapsules(3, 5, 4, 6, kernel=4)
    grid = torch.rand(2, 3, 4, 4, 4)
    torch.testing.assert_close(layer(grid).flatten(1, 3), layer.routed(grid.flatten(1, 3)))


def test_a_stack_with_a_residual_connection_ends_in_classes():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.primary = PrimaryCapsules(8, types=4, part_pose=6, kernel=3, stride=1)
            self.local = ConvCapsules(4, 4, 6, 6, kernel=3, padding=1)
            self.classes = RoutedCapsules(4 * 6 * 6, 3, 6, 8)

        def forward(self, features):
            grid = self.primary(features).unflatten(1, (4, 6, 6))
            return self.classes((grid + self.local(grid)).flatten(1, 3))

    network = Stack()
    poses = network(torch.rand(2, 8, 8, 8))
    assert poses.shape == (2, 3, 8)
    poses.square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in network.parameters())


def test_the_windows_show_every_routing_iteration_of_every_place():
    layer = ConvCapsules(2, 3, 4, 5, kernel=2, stride=2, padding=1, iterations=4)
    grid = torch.rand(2, 2, 4, 4, 4)
    steps = list(layer.routed.steps(layer.windows(grid)))
    assert len(steps) == 4
    assert steps[0].couplings.shape == (2 * 3 * 3, 2 * 2 * 2, 3)
    last = steps[-1].poses.unflatten(0, (2, 3, 3)).permute(0, 3, 1, 2, 4)
    torch.testing.assert_close(layer(grid), last)


def test_a_trace_gives_the_same_poses():
    layer = ConvCapsules(2, 3, 4, 5, kernel=2).eval()
    grid = torch.rand(2, 2, 4, 4, 4)
    program = torch.export.export(layer, (grid,), strict=False).module()
    torch.testing.assert_close(program(grid), layer(grid))


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        (
            torch.rand(2, 3, 6, 6, 4),
            r"ConvCapsules: expected .*\(batch, 2, rows, columns, 4\), found \(2, 3, 6, 6, 4\)",
        ),
        (torch.rand(2, 2 * 36, 4), r"ConvCapsules: expected"),
        (torch.zeros(2, 2, 6, 6, 4, dtype=torch.uint8), "ConvCapsules: .*floating.*uint8"),
        (torch.rand(2, 2, 2, 6, 4), "ConvCapsules: .*at least 3×3.*2×6"),
    ],
)
def test_a_wrong_grid_is_refused_with_what_was_expected_and_found(grid, words):
    with pytest.raises(InputError, match=words):
        ConvCapsules(2, 3, 4, 5, kernel=3)(grid)


def test_a_geometry_without_windows_is_refused():
    with pytest.raises(InputError, match="kernel"):
        ConvCapsules(2, 3, kernel=0)
