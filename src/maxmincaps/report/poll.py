"""Figure 10: what people and the network say of the same image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from maxmincaps.report.style import FULL_WIDTH, INK, LOOKS, panel_title, styled

PEOPLE = "#6b7280"


@dataclass(frozen=True)
class Asked:
    """One image of the poll, and both answers to it."""

    title: str
    """What the image is an example of."""
    people: Float[np.ndarray, "class"]
    """The share of people who chose each class."""
    network: Float[np.ndarray, "class"]
    """The mean length of each class capsule; these do not sum to 1."""
    classes: Sequence[str]
    label: int
    image: UInt8[Tensor, "channel height width"] | None = None


@styled
def human_or_network(asked: Sequence[Asked], people: int, models: int) -> Figure:
    """Draw one bar chart an image: people beside the network, class by class, with the image in the corner."""
    figure = Figure(figsize=(FULL_WIDTH * 0.75, 1.75 * len(asked) + 0.3))
    grid = figure.subplots(len(asked), 1, squeeze=False, sharey=True)[:, 0]
    for axes, letter, one in zip(grid, "abcdefghijklmnop", asked, strict=False):
        _pair_of_bars(axes, one)
        panel_title(axes, letter, f"{one.title} (true class {one.classes[one.label]})")
    grid[-1].set_xlabel("class")
    handles, _ = grid[0].get_legend_handles_labels()
    words = [f"people (n = {people})", f"network (mean of {models} {'model' if models == 1 else 'models'})"]
    figure.legend(handles, words, loc="outside upper right", ncols=2)
    return figure


def _pair_of_bars(axes: Axes, one: Asked) -> None:
    places = np.arange(len(one.classes))
    axes.bar(places - 0.2, one.people, width=0.38, color=PEOPLE, hatch="////", edgecolor="white", label="people")
    axes.bar(places + 0.2, one.network, width=0.38, color=LOOKS["max-min"].colour, linewidth=0, label="network")
    axes.set_ylim(0, 1)
    axes.set_ylabel("probability")
    axes.set_xticks(places, one.classes)
    axes.get_xticklabels()[one.label].set(fontweight="bold", color=INK)
    axes.grid(axis="y")
    if one.image is not None:
        inset = axes.inset_axes((1.02, 0.1, 0.2, 0.8))
        pixels = one.image[0] if len(one.image) == 1 else one.image.permute(1, 2, 0)
        inset.imshow(pixels.numpy(), cmap="gray_r", vmin=0, vmax=255)
        inset.set_axis_off()
