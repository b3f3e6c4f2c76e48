"""What a record says of the machine that it was made on."""

import pytest
import torch

from maxmincaps.training.environment import environment


@pytest.mark.parametrize(
    ("precision", "capability", "allowed", "said"),
    [
        ("fp32", (8, 0), True, "fp32, convolutions tf32"),
        ("fp32", (8, 0), False, "fp32"),
        ("fp32", (7, 5), True, "fp32"),
        ("bf16", (8, 0), True, "bf16"),
    ],
)
def test_a_card_that_rounds_single_precision_is_told(monkeypatch, precision, capability, allowed, said):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", allowed)
    assert environment(torch.device("cuda"), precision)["precision"] == said
    assert environment(torch.device("cpu"), precision)["precision"] == precision
