"""Majority vote of several networks (Table 2), from run folders alone."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal, get_args

import torch
from torch.nn.functional import one_hot

from maxmincaps.errors import InputError, check_name
from maxmincaps.training.responses import Responses

Rule = Literal["majority", "summed"]


def vote(models: Sequence[Responses], rule: Rule = "majority") -> Responses:
    """Return the joint responses of several networks; lengths are means over them, as in the paper's figure 10.

    Args:
        models: Responses of each network to the same test images.
        rule: `majority` with ties broken by summed length, or `summed` for the largest summed length.
    """
    check_name(rule, get_args(Rule), "rule")
    if not models:
        raise InputError("a vote needs at least one run")
    if any(model.classes != models[0].classes or not model.labels.equal(models[0].labels) for model in models):
        raise InputError("a vote needs runs that were tested on the same images")
    summed = torch.stack([model.lengths for model in models]).double().sum(dim=0)
    predictions = summed.argmax(dim=1)
    if rule == "majority":
        votes = torch.stack([one_hot(model.predictions, summed.shape[1]) for model in models]).sum(dim=0)
        tied = votes == votes.amax(dim=1, keepdim=True)
        predictions = summed.masked_fill(~tied, -torch.inf).argmax(dim=1)
    return replace(models[0], lengths=(summed / len(models)).float(), predictions=predictions)


def spread(models: Sequence[Responses], size: int = 3, rule: Rule = "majority") -> list[float]:
    """Return the error in percent of the vote of every subset of `size` networks."""
    return [vote(chosen, rule).error_percent for chosen in combinations(models, size)]
