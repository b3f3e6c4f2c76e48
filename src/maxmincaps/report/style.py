"""One quiet look for every figure: Max-Min is blue, solid, with triangles; Softmax is orange, dashed, with circles."""

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from itertools import count
from math import log10
from pathlib import Path
from string import ascii_lowercase
from typing import ParamSpec

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter
from matplotlib.typing import ColorType

INK = "#24292f"
"""Text and axes. The page gives this colour its own value in the dark."""
FAINT = "#8b949e"
"""What helps reading and is not the message: grids, notes, the paper's values."""
PAPER = "#ffffff"
PRINT = "#1b1f24"
"""Dark letters on a coloured ground, which the page leaves dark."""
PNG_DPI = 200
FULL_WIDTH = 7.2
"""Inches: the width of a page's text."""

RULES = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.parse_math": False,  # a dollar in the name of a class is a dollar
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.35,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "axes.formatter.useoffset": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "patch.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.facecolor": "none",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.05,
    "figure.constrained_layout.w_pad": 0.05,
    "svg.fonttype": "path",
    "svg.hashsalt": "maxmincaps",
    "image.interpolation": "nearest",
}
"""Matplotlib's settings while one of our figures is drawn or written, and at no other time."""


@dataclass(frozen=True)
class Look:
    """How a normalization is named and drawn."""

    label: str
    colour: str
    line: str
    marker: str


LOOKS: dict[str, Look] = {
    "softmax": Look("Softmax", "#d97706", "--", "o"),
    "max-min": Look("Max-Min", "#0067a5", "-", "^"),
    "winner-take-all": Look("Winner-take-all", "#00805f", "-.", "s"),
    "sum": Look("Sum", "#6b6b6b", ":", "X"),
    "centered-max-min": Look("Centered Max-Min", "#56a0d3", "-", "v"),
    "z-score": Look("Z-score", "#a5518f", "-.", "D"),
    "adjusted-log": Look("Adjusted log", "#7a6a00", "--", "P"),
    "leaky-softmax": Look("Leaky Softmax", "#b3552e", ":", "h"),
    "uniform": Look("Uniform", "#8b949e", ":", "."),
}
"""Colours that stay apart for colour-blind readers; line and marker tell them apart in grey too."""

PAGE_COLOURS = {"ink": INK, "faint": FAINT, "softmax": LOOKS["softmax"].colour, "max-min": LOOKS["max-min"].colour}
"""What the page may show in another shade, in the dark, by the name of its variable."""
Arguments = ParamSpec("Arguments")


def look(normalization: str) -> Look:
    """Give a normalization's look; one that a user added is grey, under its own name."""
    return LOOKS.get(normalization, Look(normalization, "#57606a", "-", "d"))


def styled(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Draw under our settings, and leave those of the process alone."""

    @wraps(draw)
    def drawn(*arguments: Arguments.args, **settings: Arguments.kwargs) -> Figure:
        with matplotlib.rc_context(RULES):
            return draw(*arguments, **settings)

    return drawn


def shades(colour: str, lightest: float = 0.0) -> LinearSegmentedColormap:
    """Give the scale from white (or a tint of the colour) to the colour."""
    tint = tuple(1 - lightest * (1 - part) for part in to_rgb(colour))
    return LinearSegmentedColormap.from_list(f"shades of {colour}", [tint, colour])


def ink_on(ground: ColorType) -> str:
    """Choose dark or white letters, whichever stand out more on a ground that is the same by day and in the dark."""
    return max((PAPER, PRINT), key=lambda ink: abs(log10((_light(ink) + 0.05) / (_light(ground) + 0.05))))


def _light(colour: ColorType) -> float:
    """Give a colour's relative luminance, by which WCAG 2 defines contrast."""
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour))
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def letters() -> Iterator[str]:
    """Name panels without end: a … z, aa … zz."""
    return (letter * times for times in count(1) for letter in ascii_lowercase)


def panel_title(axes: Axes, letter: str, words: str, colour: str = INK) -> None:
    """Write "(a) words" over a panel, at its left edge."""
    axes.set_title(f"({letter}) {words}", loc="left", color=colour, fontweight="bold" if colour != INK else "normal")


def powers_of_ten(axis: Axis) -> None:
    """Write the ticks of a logarithmic axis as 10³, in plain letters."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: "10" + _raised(value)))


def _raised(value: float) -> str:
    return str(round(log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def footnote(figure: Figure, words: str) -> None:
    """Write a note under a finished figure, so that it goes wherever the figure goes."""
    lines = textwrap.wrap(words, width=int(19 * figure.get_figwidth()))
    before = figure.get_figheight()
    after = before + 0.14 * len(lines) + 0.06
    figure.set_figheight(after)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, 1 - before / after, 1, before / after))
    place = {"va": "bottom", "linespacing": 1.3, "gid": "footnote"}
    figure.text(0.01, 0.03 / after, "\n".join(lines), fontsize=6.5, color=FAINT, parse_math=False, **place)


def save(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write the figure as PNG and as SVG, the same bytes for the same figure; give both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    png, vector = folder / f"{name}.png", folder / f"{name}.svg"
    with matplotlib.rc_context(RULES):
        figure.savefig(png, dpi=PNG_DPI, metadata={"Software": None})
        figure.set_layout_engine("none")  # everything has its place now
        figure.savefig(vector, metadata={"Date": None, "Creator": None})
    return png, vector


def for_page(text: str, prefix: str) -> str:
    """Fit an SVG file's text into a page: no background, the page's own ink, and names that no other figure has."""
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    head, _, rest = text.partition(">")
    sizes = dict(re.findall(r'(width|viewBox)="([^"]*)"', head))
    head = f'<svg viewBox="{sizes["viewBox"]}" style="--natural: {sizes["width"]}" aria-hidden="true"'
    rest = rest.replace(f"fill: {PAPER}", "fill: none", 1)
    for name, colour in PAGE_COLOURS.items():
        rest = rest.replace(colour, f"var(--{name})")
    return head + ">" + re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", rest)
