"""Figures 2 to 4 from a trace: nothing is lost in a histogram, and the children that are shown are worth showing."""

from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmincaps import fit
from maxmincaps.analysis.traces import chosen_children, evolution, rows, trace
from maxmincaps.errors import InputError
from tests.analysis.runs import write_trace


def panels_of(bins):
    """Bins of each iteration, quantity and column."""
    panels = defaultdict(list)
    for one in bins:
        panels[one.iteration, one.quantity, one.column].append(one)
    return panels


@pytest.fixture
def run(tmp_path):
    logits = torch.randn(3, 40, 10, generator=torch.Generator().manual_seed(0))
    logits[0] = 0
    logits[:, 30:] = 0  # inactive children
    write_trace(tmp_path, logits, torch.sigmoid(logits), label=4)
    return tmp_path


@settings(max_examples=30)
@given(
    scale=st.floats(1e-8, 1e6),
    shift=st.floats(-1e3, 1e3),
    bins=st.integers(1, 60),
    seed=st.integers(0, 99),
)
def test_every_logit_and_coupling_is_counted_once(tmp_path_factory, scale, shift, bins, seed):
    folder = tmp_path_factory.mktemp("run")
    values = torch.randn(3, 20, 10, generator=torch.Generator().manual_seed(seed)) * scale + shift
    write_trace(folder, values, values.abs(), label=3)
    for (_, _, column), panel in panels_of(evolution(trace(folder), bins=bins)).items():
        assert sum(one.count for one in panel) == (20 if column == "true class" else 200)
        assert len(panel) == bins


def test_children_with_zero_prediction_vectors_are_counted_apart(tmp_path):
    logits, couplings = torch.zeros(2, 5, 10), torch.full((2, 5, 10), 0.1)
    logits[1, :3], couplings[1, :3, 0] = 1.0, 0.9
    write_trace(tmp_path, logits, couplings, label=0)
    for (_, _, column), panel in panels_of(evolution(trace(tmp_path))).items():
        active, every = (3, 5) if column == "true class" else (30, 50)
        assert (sum(one.of_active for one in panel), sum(one.count for one in panel)) == (active, every)
        assert all(one.of_active <= one.count for one in panel)


def test_the_panels_of_a_quantity_share_their_edges(run):
    panels = panels_of(evolution(trace(run), bins=20))
    assert len(panels) == 3 * 2 * 2
    for quantity in ("logits", "couplings"):
        edges = {tuple((one.low, one.high) for one in panel) for key, panel in panels.items() if key[1] == quantity}
        assert len(edges) == 1


def test_the_initial_logits_are_all_in_the_bin_of_zero(run):
    start = [row for row in evolution(trace(run), bins=20) if (row.iteration, row.quantity) == (1, "logits")]
    assert {row.count for row in start if row.count} == {40, 400}
    assert all(row.low <= 0 <= row.high for row in start if row.count)


def test_the_children_shown_are_alive_and_have_distinct_winners(run):
    found = trace(run)
    chosen = chosen_children(found)
    assert len(chosen) == 3
    assert found.alive[chosen].all()
    assert len({int(found.logits[-1, child].argmax()) for child in chosen}) == 3


def test_where_all_children_have_one_winner_three_are_shown_all_the_same(tmp_path):
    logits = torch.zeros(3, 5, 10)
    logits[1:, :, 2] = torch.arange(5.0) + 1
    write_trace(tmp_path, logits, logits.clone())
    assert chosen_children(trace(tmp_path)) == [4, 3, 2]


def test_a_row_is_a_childs_logits_and_couplings_at_the_last_iteration(run):
    found = trace(run)
    table = rows(found, [7])
    assert [row.parent for row in table] == list(range(10))
    assert [row.logit for row in table] == found.logits[-1, 7].tolist()
    assert [row.coupling for row in table] == found.couplings[-1, 7].tolist()


def test_a_child_that_is_not_there_is_refused(run):
    with pytest.raises(InputError, match="child: expected 0 to 39, found 40"):
        rows(trace(run), [40])
    with pytest.raises(InputError, match=r"nowhere.* there is no such folder"):
        trace(run / "nowhere")


def test_without_routing_active_children_are_not_counted_as_inactive(tiny, tmp_path):
    """Their logits are zero all the same: nothing has agreed yet."""
    found = trace(fit(tiny(iterations=1, epochs=1), tmp_path / "run").folder)
    assert found.logits.eq(0).all()
    assert found.alive.any()
