"""The style of all figures: Max-Min is blue, solid, with triangles; Softmax is orange, dashed, with circles."""

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from itertools import count
from math import log10
from pathlib import Path
from string import ascii_lowercase
from typing import Any, ParamSpec
from zlib import crc32

import matplotlib
from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

INK = "#24292f"  # text and axes. The page replaces this colour in dark mode.
FAINT = "#8b949e"  # grids and notes
PAPER, PRINT = "#ffffff", "#1b1f24"  # white and dark text on a coloured background, which are the same in dark mode
PNG_DPI = 200
FULL_WIDTH = 7.2  # inches: the width of a page's text
LONGEST_NAME = 3  # longer names of classes are written slanted or on a line of their own

RULES = rc_params_from_file(Path(__file__).with_name("style.mplstyle"), use_default_template=False)
"""Matplotlib's settings while one of our figures is drawn or written."""


@dataclass(frozen=True)
class LineStyle:
    """Label, colour, line and marker of a normalization or of a line of a study."""

    label: str
    colour: str
    line: str
    marker: str


LINE_STYLES: dict[str, LineStyle] = {
    "softmax": LineStyle("Softmax", "#d97706", "--", "o"),
    "max-min": LineStyle("Max-Min", "#0067a5", "-", "^"),
    "winner-take-all": LineStyle("Winner-take-all", "#00805f", "-.", "s"),
    "sum": LineStyle("Sum", "#6b6b6b", ":", "X"),
    "centered-max-min": LineStyle("Centered Max-Min", "#56a0d3", "-", "v"),
    "z-score": LineStyle("Z-score", "#a5518f", "-.", "D"),
    "adjusted-log": LineStyle("Adjusted log", "#7a6a00", "--", "P"),
    "leaky-softmax": LineStyle("Leaky Softmax", "#b3552e", ":", "h"),
    "uniform": LineStyle("Uniform", "#8b949e", ":", "."),
}
"""Colours that stay apart for colour-blind readers; line and marker tell them apart in grey too."""
FURTHER_STYLES = (
    *(("#57606a", "-", "d"), ("#8250df", "--", "p"), ("#1a7f37", "-.", "*"), ("#9a6700", ":", "<")),
    ("#bf3989", "-", ">"),
)
"""Colour, line and marker for names that are not in `LINE_STYLES`."""

PAGE_COLOURS = {"ink": INK, "faint": FAINT, **{name: LINE_STYLES[name].colour for name in ("softmax", "max-min")}}
"""Colours that the page replaces in dark mode, by the name of their CSS variable."""
Arguments = ParamSpec("Arguments")


def line_style(name: str) -> LineStyle:
    """Return the style of a normalization. Any other name gets one of five further styles, the same one each time."""
    if name in LINE_STYLES:
        return LINE_STYLES[name]
    colour, line, marker = FURTHER_STYLES[crc32(name.encode("utf-8", "replace")) % len(FURTHER_STYLES)]
    return LineStyle(name, colour, line, marker)


def styled(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Decorate a drawing function so that it uses `RULES` and leaves matplotlib's settings unchanged."""

    @wraps(draw)
    def drawn(*arguments: Arguments.args, **settings: Arguments.kwargs) -> Figure:
        with matplotlib.rc_context(RULES):
            return draw(*arguments, **settings)

    return drawn


def text_colour_on(background: Any) -> str:
    """Return dark or white, whichever has more contrast with a background."""

    def luminance(colour: Any) -> float:  # relative, as in WCAG 2
        linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour))
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) + 0.05

    return max((PAPER, PRINT), key=lambda ink: abs(log10(luminance(ink) / luminance(background))))


def letters() -> Iterator[str]:
    """Yield the letters of panels: a to z, aa to zz, and so on."""
    return (letter * times for times in count(1) for letter in ascii_lowercase)


def panel_title(axes: Axes, letter: str, words: str, colour: str = INK) -> None:
    """Write "(a) words" over a panel, at its left edge."""
    axes.set_title(f"({letter}) {words}", loc="left", color=colour, fontweight="bold" if colour != INK else "normal")


def footnote(figure: Figure, words: str) -> None:
    """Add a note below a finished figure, which grows by the height of the note."""
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
    """Write a figure as PNG and SVG and return both paths. The same figure gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    png, vector = folder / f"{name}.png", folder / f"{name}.svg"
    with matplotlib.rc_context(RULES):
        figure.savefig(png, dpi=PNG_DPI, metadata={"Software": None})
        figure.set_layout_engine("none")  # positions are final
        figure.savefig(vector, metadata={"Date": None, "Creator": None})
    return png, vector


def for_page(text: str, prefix: str) -> str:
    """Prepare the text of an SVG file for the page: transparent, with CSS colours and ids that start with `prefix`."""
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    head, _, rest = text.partition(">")
    sizes = dict(re.findall(r'(width|viewBox)="([^"]*)"', head))
    head = f'<svg viewBox="{sizes["viewBox"]}" style="--natural: {sizes["width"]}" aria-hidden="true"'
    rest = rest.replace(f"fill: {PAPER}", "fill: none", 1)
    for name, colour in PAGE_COLOURS.items():
        rest = rest.replace(colour, f"var(--{name})")
    return head + ">" + re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", rest)
