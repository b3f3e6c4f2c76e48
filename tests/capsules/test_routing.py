"""Laws of squash and of the routing loop."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmincaps.capsules import routing
from maxmincaps.capsules.layers import RoutedCapsules
from maxmincaps.capsules.normalizations import NORMALIZATIONS
from maxmincaps.capsules.routing import route, routing_steps, squash
from maxmincaps.errors import InputError
from tests.reference.routing import final_couplings, ones_procedure, softmax_procedure
from tests.reference.routing import squash as literal_squash

names = pytest.mark.parametrize("name", NORMALIZATIONS)
FOLLOWS_THE_SECOND_BOX = [name for name in NORMALIZATIONS if name not in ("softmax", "leaky-softmax")]


@st.composite
def votes(draw):
    """Votes of random shape and size; some children are inactive, as after ReLU."""
    batch, children, parents, pose = (draw(st.integers(1, most)) for most in (2, 4, 4, 3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    size = draw(st.sampled_from([1e-6, 0.1, 1.0, 20.0]))
    drawn = torch.randn(batch, children, parents + 1, pose, generator=generator, dtype=torch.float64) * size
    drawn[:, torch.rand(children, generator=generator) < draw(st.sampled_from([0.0, 0.4]))] = 0
    return drawn


def assert_near(ours, literal):
    torch.testing.assert_close(ours, literal, rtol=1e-10, atol=1e-10)


def gradient_of(poses, wanted):
    weights = torch.linspace(1, 2, poses.numel(), dtype=poses.dtype).reshape(poses.shape)
    return torch.autograd.grad((poses * weights).sum(), wanted)


@given(s=st.lists(st.floats(-1e6, 1e6, width=32, allow_subnormal=False), min_size=1, max_size=8))
def test_squash_is_the_usual_form(s):
    s = torch.tensor(s, dtype=torch.float64)
    assert_near(squash(s), literal_squash(s))


@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e19, 1e38])
def test_squash_is_finite_in_value_and_gradient_and_shorter_than_one(size):
    s = torch.full((3, 16), size, requires_grad=True)
    squashed = squash(s)
    (slope,) = gradient_of(squashed, s)
    assert squashed.isfinite().all()
    assert slope.isfinite().all()
    assert squashed.norm(dim=-1).le(1 + 1e-6).all()


def test_squash_of_a_three_four_vector_by_hand():
    # ‖(3, 4)‖ = 5, so the length becomes 25/26 and the direction stays (0.6, 0.8).
    assert squash(torch.tensor([3.0, 4.0])).tolist() == pytest.approx([0.6 * 25 / 26, 0.8 * 25 / 26])


@given(u=votes(), r=st.integers(1, 4))
def test_routing_with_softmax_is_the_papers_first_procedure(u, r):
    assert_near(route(u, "softmax", r), torch.stack([softmax_procedure(image, r) for image in u]))


@pytest.mark.parametrize("name", FOLLOWS_THE_SECOND_BOX)
@given(u=votes(), r=st.integers(1, 4))
@settings(max_examples=40)
def test_routing_with_any_other_is_the_papers_second_procedure(name, u, r):
    if name == "sum":
        u = u.abs() + 0.1 * u.abs().amax()  # sums near zero amplify rounding without bound, in both
    assert_near(route(u, name, r), torch.stack([ones_procedure(image, r, name) for image in u]))


@pytest.mark.parametrize("name", ["softmax", "max-min", "centered-max-min", "z-score", "adjusted-log"])
@given(u=votes(), r=st.integers(1, 3))
@settings(max_examples=25)
def test_full_backpropagation_is_autograd_on_the_literal_procedure(name, u, r):
    u = u.abs() + torch.linspace(0.1, 0.5, u.numel(), dtype=u.dtype).reshape(u.shape)  # no inactive child: no ties
    u.requires_grad_()
    procedure = softmax_procedure if name == "softmax" else lambda image, r: ones_procedure(image, r, name)
    literal = torch.stack([procedure(image, r) for image in u])
    ours = route(u, name, r, full_backpropagation=True)
    torch.testing.assert_close(gradient_of(ours, u), gradient_of(literal, u), rtol=1e-8, atol=1e-10)


STARTS = [("softmax", 1.0), ("max-min", 0.01), ("max-min", 0.1), ("leaky-softmax", None)]


@pytest.mark.parametrize(("name", "start"), STARTS)
@given(u=votes(), r=st.integers(1, 4))
@settings(max_examples=25)
def test_another_start_changes_the_first_couplings_and_what_follows_from_them(name, start, u, r):
    first = 1 / (u.shape[2] + 1) if start is None else start
    assert_near(route(u, name, r, start=start), torch.stack([ones_procedure(image, r, name, first) for image in u]))


@given(u=votes())
@settings(max_examples=10)
def test_uniform_couplings_stay_at_their_start(u):
    assert all(step.couplings.eq(0.3).all() for step in routing_steps(u, "uniform", 3, start=0.3))


@names
@given(u=votes(), r=st.integers(2, 4))
@settings(max_examples=25)
def test_by_default_gradients_flow_through_the_last_weighted_sum_only(name, u, r):
    u = (u.abs() if name == "sum" else u).requires_grad_()  # sums near zero would be a matter of rounding
    literal = []
    for image in u:
        c = [[float(x) for x in row] for row in final_couplings(image.detach(), r, name)]
        sums = (torch.tensor(c, dtype=u.dtype).unsqueeze(-1) * image).sum(0)
        literal.append(torch.stack([literal_squash(s) for s in sums]))
    for image_literal, ours in zip(literal, route(u, name, r), strict=True):
        assert_near(ours, image_literal)
    assert_near(gradient_of(route(u, name, r), u)[0], gradient_of(torch.stack(literal), u)[0])


@names
@given(u=votes(), r=st.integers(1, 4), part=st.integers(1, 3))
@settings(max_examples=25)
def test_the_layer_routes_piece_by_piece_as_the_loop_does_at_once(name, u, r, part):
    """The fast path against the literal one: every step, and the gradients of parts and weights."""
    batch, children, parents, pose = u.shape
    generator = torch.Generator().manual_seed(r)
    parts = torch.rand(batch, children, part, generator=generator, dtype=u.dtype) * (u[:, :, :1, 0] != 0)
    weights = torch.randn(children, parents, pose, part, generator=generator, dtype=u.dtype)
    weights = weights.abs() if name == "sum" else weights
    parts.requires_grad_()
    layer = RoutedCapsules(children, parents, part, pose, normalization=name, iterations=r)
    layer.set_multiplier(1.0)
    layer.weights = torch.nn.Parameter(weights)
    formed = torch.einsum("ijdk,bik->bijd", layer.weights, parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "CACHE_BYTES", 1)  # one image at a time
        fast_steps = list(layer.steps(parts))
    literal_steps = list(routing_steps(formed, name, r))
    for fast, literal in zip(fast_steps, literal_steps, strict=True):
        for field in ("logits", "couplings", "poses"):
            torch.testing.assert_close(getattr(fast, field), getattr(literal, field), rtol=1e-7, atol=1e-9)
    wanted = (parts, layer.weights)
    for fast, literal in zip(
        gradient_of(fast_steps[-1].poses, wanted), gradient_of(literal_steps[-1].poses, wanted), strict=True
    ):
        torch.testing.assert_close(fast, literal, rtol=1e-7, atol=1e-9)


@names
def test_the_first_step_has_zero_logits_and_start_couplings(name):
    first, second = routing_steps(torch.ones(1, 5, 4, 2), name, 2)
    assert not first.logits.any()
    assert first.couplings.eq(NORMALIZATIONS[name].start_for(4)).all()
    torch.testing.assert_close(second.couplings, NORMALIZATIONS[name](second.logits).expand_as(second.logits))


def test_a_step_holds_the_couplings_that_formed_its_poses():
    u = torch.randn(2, 6, 3, 4, generator=torch.Generator().manual_seed(1))
    for step in routing_steps(u, "max-min", 5):
        torch.testing.assert_close(step.poses, squash((step.couplings.unsqueeze(-1) * u).sum(1)))


def test_route_gives_the_last_step():
    u = torch.randn(2, 6, 3, 4, generator=torch.Generator().manual_seed(1))
    assert route(u, "max-min", 4).equal(list(routing_steps(u, "max-min", 4))[-1].poses)


def test_a_routing_worked_by_hand():
    """Two children, two parents, poses of one number, two iterations of Max-Min."""
    u = torch.tensor([[[[1.0], [0.0]], [[1.0], [2.0]]]])
    first, second = routing_steps(u, "max-min", 2)
    # s = (1 + 1, 0 + 2), both of length 2: squashed to 4/5.
    assert first.poses.flatten().tolist() == pytest.approx([0.8, 0.8])
    # b = û·v: child one (0.8, 0), child two (0.8, 1.6); stretched onto 0…1: (1, 0) and (0, 1).
    assert second.logits.flatten().tolist() == pytest.approx([0.8, 0, 0.8, 1.6])
    assert second.couplings.flatten().tolist() == pytest.approx([1, 0, 0, 1])
    # s = (1, 2): lengths 1/2 and 4/5.
    assert second.poses.flatten().tolist() == pytest.approx([0.5, 0.8])


def test_start_and_bias_are_settings():
    u = torch.ones(1, 3, 2, 1)
    step = next(iter(routing_steps(u, "max-min", 3, start=0.5, bias=torch.tensor([[0.0], [1.0]]))))
    assert step.couplings.eq(0.5).all()
    assert step.poses.flatten().tolist() == squash(torch.tensor([[1.5], [2.5]])).flatten().tolist()


@pytest.mark.parametrize("full", [False, True])
def test_a_bias_is_part_of_every_sum(full):
    torch.manual_seed(0)
    layer = RoutedCapsules(6, 3, 4, 5, bias=True, full_backpropagation=full).double()
    torch.nn.init.normal_(layer.bias)
    parts = torch.rand(2, 6, 4, dtype=torch.float64)
    votes = torch.einsum("ijdk,bik->bijd", layer.effective_weights, parts)
    logits = torch.zeros(2, 6, 3, dtype=torch.float64)
    for step in layer.steps(parts):
        torch.testing.assert_close(step.logits, logits)
        torch.testing.assert_close(step.poses, squash((step.couplings.unsqueeze(-1) * votes).sum(1) + layer.bias))
        logits = logits + (votes * step.poses.unsqueeze(1)).sum(-1)
    torch.testing.assert_close(layer(parts), step.poses)


def test_seeing_every_step_changes_nothing():
    layer = RoutedCapsules(7, 3, 4, 5)
    parts = torch.rand(2, 7, 4, generator=torch.Generator().manual_seed(0))
    steps = list(layer.steps(parts))
    assert len(steps) == 3
    assert steps[-1].poses.equal(layer(parts))


def test_routing_stops_before_less_than_one_iteration():
    with pytest.raises(InputError, match="at least 1 iteration, found 0"):
        route(torch.ones(1, 2, 2, 2), "max-min", 0)


@pytest.mark.parametrize("length", [0.0, 0.001, 0.01, 0.3, 5.0, 1000.0])
def test_squash_in_half_precision_is_that_of_single_precision(length):
    poses = torch.tensor([[0.6 * length, 0.8 * length]])
    halved = squash(poses.half())
    assert halved.dtype == torch.float16
    torch.testing.assert_close(halved.float(), squash(poses), rtol=0.01, atol=1e-7)


def test_large_batches_are_divided_on_an_accelerator_too(monkeypatch):
    parts, weights = torch.empty(5, 36, 8, device="meta"), torch.empty(36, 10, 16, 8, device="meta")
    assert [len(piece.votes) for piece in routing.votes_in_pieces(parts, weights)] == [5]
    monkeypatch.setattr(routing, "DEVICE_BYTES", 2 * 36 * 10 * 16 * 4)
    assert [len(piece.votes) for piece in routing.votes_in_pieces(parts, weights)] == [2, 2, 1]


@given(u=votes(), r=st.integers(1, 4), power=st.integers(-8, 8))
def test_max_min_does_not_depend_on_the_gain_of_its_logits(u, r, power):
    """Exactly, for powers of two: multiplying by them rounds nothing."""
    assert route(u, "max-min", r, logit_gain=2.0**power).equal(route(u, "max-min", r))


def test_softmax_depends_on_the_gain_of_its_logits():
    u = torch.randn(1, 6, 4, 5, generator=torch.Generator().manual_seed(0))
    largest = [
        list(routing_steps(u, "softmax", 3, logit_gain=gain))[-1].couplings.amax(dim=-1).mean()
        for gain in (1.0, 4.0, 16.0)
    ]
    assert largest[0] < largest[1] < largest[2]


@names
@given(u=votes(), r=st.integers(1, 3), gain=st.sampled_from([0.3, 4.0]))
def test_a_gain_of_the_logits_is_that_of_the_literal_procedure(name, u, r, gain):
    literal = [ones_procedure(image, r, name, start_of(name, u), gain) for image in u]
    assert_near(route(u, name, r, logit_gain=gain), torch.stack(literal))


def start_of(name, u):
    parents = u.shape[2]
    return {"softmax": 1 / parents, "leaky-softmax": 1 / (parents + 1)}.get(name, 1.0)
