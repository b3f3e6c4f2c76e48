"""Laws of the normalizations, over the table: a new entry is tested without further code."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxmincaps.capsules.layers import RoutedCapsules
from maxmincaps.capsules.normalizations import NORMALIZATIONS, Normalization, normalization_of
from maxmincaps.capsules.routing import route
from maxmincaps.errors import InputError
from tests.reference.normalizations import LITERAL

names = pytest.mark.parametrize("name", NORMALIZATIONS)
sizes = st.sampled_from([0.0, 1e-12, 1e-3, 1.0, 30.0])


@st.composite
def logits(draw, least_parents=2):
    """Three children's logits: any size, with ties, zeros, and inactive children."""
    parents = draw(st.integers(least_parents, 12))
    number = st.floats(-1, 1, width=32, allow_subnormal=False) | st.sampled_from([0.0, 0.5])
    rows = draw(st.lists(st.lists(number, min_size=parents, max_size=parents), min_size=3, max_size=3))
    return torch.tensor(rows, dtype=torch.float64) * draw(sizes)


def gradient(function, values):
    values = values.clone().requires_grad_()
    out = function(values)
    # Weights that differ from place to place, so that no error cancels in the sum.
    total = (out * torch.linspace(1, 2, out.numel(), dtype=out.dtype).reshape(out.shape)).sum()
    return torch.autograd.grad(total, values, allow_unused=True)[0] if total.requires_grad else None


@names
@given(values=logits())
def test_each_normalization_is_its_literal_equation_in_values(name, values):
    literal = torch.tensor([[float(c) for c in LITERAL[name](list(row))] for row in values], dtype=torch.float64)
    if name == "sum" and bool(((values.sum(-1).abs() < 1e-9) & (values.sum(-1).abs() > 0)).any()):
        return  # the order of adding decides, in both, on which side of the threshold a rounding error falls
    torch.testing.assert_close(NORMALIZATIONS[name](values), literal, rtol=1e-10, atol=1e-10)


@names
@given(values=logits())
def test_each_normalization_is_its_literal_equation_in_gradients(name, values):
    # Ties have no gradient: where two logits compete for the maximum, any share is right. So they are moved apart.
    values = values + torch.linspace(0, 1, values.shape[-1], dtype=torch.float64).pow(2) * 3
    fast = gradient(NORMALIZATIONS[name], values)
    slow = gradient(lambda b: torch.stack([torch.stack(LITERAL[name](list(row))) for row in b]), values)
    if name in ("winner-take-all", "uniform"):
        assert fast is None or not fast.any()
    else:
        torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)


@names
@pytest.mark.parametrize("size", [0.0, 1e-42, 1e-30, 1e-8, 1.0, 1e8, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_size_of_logits_gives_nan_or_inf_in_value_or_gradient(name, size, dtype):
    pattern = torch.tensor([[0.0, 0, 0, 0], [1, 1, 1, 1], [1, -1, 0, 0.5], [0, 0, 0, 1], [-1, -1, -1, -2]])
    values = (pattern * size).to(dtype)
    assert NORMALIZATIONS[name](values).isfinite().all()
    slope = gradient(NORMALIZATIONS[name], values)
    # 1/size is beyond float32 for the smallest sizes: there the slope of a scale-invariant function is truly infinite.
    assert slope is None or size < 1e-20 or slope.isfinite().all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("max-min", 0), ("centered-max-min", 0), ("z-score", 0), ("adjusted-log", 0), ("softmax", 0.25), ("uniform", 1)],
)
@pytest.mark.parametrize("value", [0.0, 0.1, -3.7, 1e30])
def test_equal_logits_give_the_defined_value(name, expected, value):
    assert NORMALIZATIONS[name](torch.full((2, 4), value)).eq(expected).all()


def test_an_inactive_child_goes_to_the_first_parent_or_to_all_alike():
    inactive = torch.zeros(1, 4)
    assert NORMALIZATIONS["winner-take-all"](inactive).tolist() == [[1, 0, 0, 0]]
    assert NORMALIZATIONS["sum"](inactive).tolist() == [[0.25] * 4]
    assert NORMALIZATIONS["leaky-softmax"](inactive)[0].tolist() == pytest.approx([0.2] * 4)


@given(values=logits())
def test_softmax_shares_one_unit_among_the_parents(values):
    torch.testing.assert_close(NORMALIZATIONS["softmax"](values).sum(-1), torch.ones(3, dtype=torch.float64))


@given(values=logits(), scale=st.floats(1e-3, 1e3), shift=st.floats(-10, 10))
def test_max_min_ignores_scale_and_shift(values, scale, shift):
    values = torch.round(values, decimals=6)
    couplings = NORMALIZATIONS["max-min"](values)
    moved = NORMALIZATIONS["max-min"](values * scale)
    torch.testing.assert_close(couplings, moved)
    wide = values.amax(-1) - values.amin(-1) > 1e-3  # a shift of narrow logits loses their difference to rounding
    torch.testing.assert_close(couplings[wide], NORMALIZATIONS["max-min"](values + shift)[wide], rtol=1e-8, atol=1e-8)


@given(values=logits(), low=st.floats(-1, 0.5), width=st.floats(0.01, 2))
def test_max_min_reaches_both_of_its_bounds(values, low, width):
    couplings = NORMALIZATIONS["max-min"].with_settings(low=low, high=low + width)(values)
    alive = values.amax(-1) > values.amin(-1)
    assert couplings.amin(-1) == pytest.approx([low] * 3)
    assert couplings.amax(-1)[alive] == pytest.approx([low + width] * int(alive.sum()))


@given(values=logits())
def test_winner_take_all_has_one_one(values):
    couplings = NORMALIZATIONS["winner-take-all"](values)
    assert couplings.sum(-1).eq(1).all()
    assert couplings.amax(-1).eq(1).all()
    assert values.gather(1, couplings.argmax(-1, keepdim=True)).flatten().eq(values.amax(-1)).all()


@given(values=logits())
def test_centered_max_min_stays_within_one_and_balances(values):
    couplings = NORMALIZATIONS["centered-max-min"](values)
    assert couplings.abs().max() <= 1
    torch.testing.assert_close(couplings.sum(-1), torch.zeros(3, dtype=torch.float64))


@given(values=logits())
def test_z_score_has_mean_zero_and_variance_one_or_nothing(values):
    couplings = NORMALIZATIONS["z-score"](values)
    alive = (values.amax(-1) > values.amin(-1)).double()
    torch.testing.assert_close(couplings.mean(-1), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(couplings.var(-1, correction=0), alive)


@given(values=logits())
def test_adjusted_log_starts_at_zero_and_keeps_the_order(values):
    couplings = NORMALIZATIONS["adjusted-log"](values)
    assert couplings.amin(-1).eq(0).all()
    assert couplings.gather(1, values.argsort(-1)).diff().ge(0).all()


@given(values=logits())
def test_leaky_softmax_leaves_the_share_of_a_zero_logit_unassigned(values):
    kept = 1 - NORMALIZATIONS["leaky-softmax"](values).sum(-1)
    with_zero_logit = torch.cat([values, torch.zeros_like(values[:, :1])], dim=1)
    torch.testing.assert_close(kept, with_zero_logit.softmax(-1)[:, -1], rtol=1e-6, atol=1e-12)


def test_sum_shares_equally_below_its_threshold_and_by_logits_above_it():
    below, above = torch.tensor([5e-13, 4e-13]).double(), torch.tensor([8e-13, 4e-13]).double()
    torch.testing.assert_close(NORMALIZATIONS["sum"](below), torch.full((2,), 0.5).double())
    torch.testing.assert_close(NORMALIZATIONS["sum"](above), torch.tensor([2 / 3, 1 / 3]).double(), rtol=1e-6, atol=0)


@names
def test_what_other_children_do_changes_nothing(name):
    """Fails for a normalization over children instead of parents: shapes fit there, meaning does not."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(6, 4, generator=generator)
    before = NORMALIZATIONS[name](values)
    for child in range(6):
        others = torch.randn(6, 4, generator=generator)
        others[child] = values[child]
        torch.testing.assert_close(NORMALIZATIONS[name](others)[child], before[child], rtol=0, atol=0)
        torch.testing.assert_close(NORMALIZATIONS[name](values[child]), before[child])


@names
def test_children_that_lie_innermost_in_memory_are_left_there(name):
    """Otherwise the products that routing makes next would wait for memory."""
    values = torch.randn(2, 4, 6).mT
    couplings = NORMALIZATIONS[name](values)
    assert couplings.shape == values.shape
    assert couplings.stride(-2) == 1


def test_a_hand_worked_child():
    b = torch.tensor([1.0, 2.0, 5.0])
    assert NORMALIZATIONS["max-min"](b).tolist() == [0, 0.25, 1]
    assert NORMALIZATIONS["sum"](b).tolist() == [0.125, 0.25, 0.625]
    assert NORMALIZATIONS["winner-take-all"](b).tolist() == [0, 0, 1]
    assert NORMALIZATIONS["centered-max-min"](b).tolist() == pytest.approx([-5 / 12, -2 / 12, 7 / 12])
    assert NORMALIZATIONS["z-score"](b).tolist() == pytest.approx([-0.98058068, -0.39223227, 1.37281295])
    assert NORMALIZATIONS["adjusted-log"](b).tolist() == pytest.approx([0, 0.69314718, 1.60943791])
    assert NORMALIZATIONS["softmax"](b).tolist() == pytest.approx([0.01714783, 0.04661262, 0.93623955])


def test_only_what_has_bounds_takes_them():
    with pytest.raises(InputError, match="no 'high' to set; it has no settings"):
        NORMALIZATIONS["softmax"].with_settings(high=0.5)
    with pytest.raises(InputError, match="it has low, high"):
        NORMALIZATIONS["max-min"].with_settings(upper=0.5)


def test_a_wrong_name_lists_the_right_ones():
    with pytest.raises(InputError, match="no normalization is called 'maxmn'; there are softmax, max-min, winner"):
        normalization_of("maxmn")


def test_a_normalization_of_ones_own_is_one_line():
    NORMALIZATIONS["cubed"] = Normalization(lambda logits: logits**3, start=0.5)
    try:
        assert normalization_of("cubed")(torch.tensor([2.0])).tolist() == [8]
        assert normalization_of("cubed").start_for(10) == 0.5
    finally:
        del NORMALIZATIONS["cubed"]
    assert normalization_of(torch.tanh).start_for(3) == 1.0


def test_a_normalization_of_ones_own_that_is_not_finite_is_refused():
    with pytest.raises(InputError, match="expected to give finite couplings for finite logits"):
        RoutedCapsules(8, 3, normalization=Normalization(lambda logits: logits / 0))


@pytest.mark.parametrize("wrap", [lambda function: function, Normalization])
def test_a_normalization_of_ones_own_may_change_its_logits_in_place(wrap):
    """The next iteration adds to the logits, which therefore must stay as they are."""
    votes, layer = torch.rand(2, 8, 3, 5), RoutedCapsules(8, 3, normalization=wrap(lambda logits: logits.mul_(2)))
    doubled = RoutedCapsules(8, 3, normalization=wrap(lambda logits: logits * 2))
    doubled.load_state_dict(layer.state_dict())
    assert route(votes, wrap(lambda logits: logits.mul_(2))).equal(route(votes, lambda logits: logits * 2))
    steps = [list(each.steps(torch.ones(1, 8, 8))) for each in (layer, doubled)]
    for one, other in zip(*steps, strict=True):
        assert one.logits.equal(other.logits)


def test_a_normalization_of_ones_own_may_make_tensors_wherever_the_network_is_built():
    halved = Normalization(lambda logits: logits.softmax(-1) * torch.tensor(0.5))
    with torch.device("meta"):
        layer = RoutedCapsules(8, 3, normalization=halved)
    assert layer.sigma == RoutedCapsules(8, 3, normalization=halved).sigma


class Tempered(torch.nn.Module):
    """A normalization with something to learn."""

    def __init__(self):
        super().__init__()
        self.temperature = torch.nn.Parameter(torch.ones(()))

    def forward(self, logits):
        return (logits / self.temperature).softmax(dim=-1)


def test_a_normalization_with_parameters_is_learnt_moved_and_saved_with_its_layer():
    layer = RoutedCapsules(8, 3, normalization=Normalization(Tempered()), full_backpropagation=True).double()
    layer(torch.rand(2, 8, 8, dtype=torch.float64)).square().sum().backward()
    (name,) = (name for name, _ in layer.named_parameters() if name.endswith("temperature"))
    assert layer.get_parameter(name).dtype == torch.float64
    assert layer.get_parameter(name).grad != 0
    assert name in layer.state_dict()


def test_what_one_network_learns_is_not_what_a_name_stands_for(monkeypatch):
    monkeypatch.setitem(NORMALIZATIONS, "tempered", Normalization(Tempered()))
    first, second = (RoutedCapsules(8, 3, normalization="tempered") for _ in range(2))
    with torch.no_grad():
        first.learnt_normalization.temperature.fill_(5.0)
    logits = torch.rand(2, 3)
    assert not first.normalization(logits).equal(second.normalization(logits))
    first.to("meta")  # as on a GPU: the next network is built elsewhere
    assert RoutedCapsules(8, 3, normalization="tempered").learnt_normalization.temperature == 1


def test_a_built_in_function_has_no_settings_to_set():
    with pytest.raises(InputError, match="no 'high' to set; it has no settings"):
        Normalization(torch.sigmoid).with_settings(high=0.5)


def test_the_couplings_start_where_the_paper_says():
    starts = {name: each.start_for(10) for name, each in NORMALIZATIONS.items()}
    assert starts.pop("softmax") == 0.1
    assert starts.pop("leaky-softmax") == pytest.approx(1 / 11)
    assert set(starts.values()) == {1.0}


@names
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_what_single_precision_gives_but_for_rounding(name, dtype):
    values = torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0], [0.125, -0.25, 0.5]])
    halved = NORMALIZATIONS[name](values.to(dtype)).float()
    torch.testing.assert_close(halved, NORMALIZATIONS[name](values), rtol=0.02, atol=0.01)
