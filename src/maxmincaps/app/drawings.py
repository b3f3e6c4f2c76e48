"""Small charts and pictures as SVG or HTML text, drawn in a millisecond, in the colours of the page.

Each has `role="img"` and an alternative text that says what it shows. A chart is as wide as the element around it.
"""

import base64
import io
import math
from collections.abc import Callable, Sequence
from html import escape

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from maxmincaps.app.routed import Child, Histogram, ReceptiveField
from maxmincaps.training.predict import Picture


def png_url(picture: Picture) -> str:
    """Return an image as a data URL."""
    pixels = picture.detach().clamp(0, 1).mul(255).round().to(torch.uint8)
    image = Image.fromarray(pixels[0].numpy() if len(pixels) == 1 else pixels.permute(1, 2, 0).numpy())
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def picture(image: Picture, alt: str, caption: str = "") -> str:
    """Show an image with sharp pixels and a caption."""
    under = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="picture"><img src="{png_url(image)}" alt="{escape(alt)}">{under}</figure>'


def _svg(width: float, height: float, alt: str, body: Sequence[str], kind: str = "chart") -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(alt)}">'
        f"{''.join(body)}</svg>"
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _short(name: str, most: int = 9) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def lengths(values: Sequence[float], classes: Sequence[str], colour: str) -> str:
    """Draw a bar for the length of each class capsule, the longest one in full colour."""
    width, row, left = 260, 20, 14 + 7 * min(9, max(map(len, classes)))
    longest = max(range(len(values)), key=lambda place: values[place])
    scale = width - left - 36
    body = []
    for place, (name, value) in enumerate(zip(classes, values, strict=True)):
        top, opacity = place * row, 1 if place == longest else 0.45
        body += [
            _text(left - 7, top + 14, _short(name), "strong" if place == longest else "", "end"),
            f'<rect x="{left}" y="{top + 3}" width="{scale}" height="13" rx="2" class="track"/>',
            f'<rect x="{left}" y="{top + 3}" width="{max(0.5, value * scale):.1f}" height="13" rx="2" '
            f'fill="{colour}" opacity="{opacity}"/>',
            _text(width, top + 14, f"{value:.2f}", "strong" if place == longest else "faint", "end"),
        ]
    values_in_words = ", ".join(f"{name} {value:.2f}" for name, value in zip(classes, values, strict=True))
    return _svg(width, row * len(values), f"Length of each class capsule: {values_in_words}", body)


def histogram(counts: Histogram, title: str, parent: str, colour: str) -> str:
    """Draw counts on a logarithmic axis: those of all classes pale, those of one class in full colour in front."""
    width, height, left, bottom, top, right = 200, 120, 40, 18, 6, 8
    most = max(10.0, counts.all_parents.max().item())
    tall, wide = height - bottom - top, (width - left - right) / len(counts.all_parents)

    def bar_height(count: float) -> float:
        return tall * (math.log10(count) + 0.3) / (math.log10(most) + 0.3) if count else 0.0

    body = []
    for power in range(math.floor(math.log10(most)) + 1):
        y = top + tall - bar_height(10.0**power)
        body.append(f'<line x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        body.append(_text(left - 4, y + 3.5, f"{10**power:,}", "faint small", "end"))
    for kind, bars, opacity in (("all", counts.all_parents, 0.32), ("one", counts.one_parent, 1)):
        path = _bars(bars.tolist(), left, top + tall, wide, bar_height)
        body.append(f'<path class="{kind}" d="{path}" fill="{colour}" opacity="{opacity}"/>')
    low, high = counts.edges[0].item(), counts.edges[-1].item()
    for value in _ticks(low, high):
        x = left + (value - low) / (high - low) * wide * len(counts.all_parents)
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top + tall}" y2="{top + 3 + tall}" class="axis"/>')
        body.append(_text(x, height - 3, f"{value:g}".replace("-", "−"), "faint small"))
    body.append(f'<line x1="{left}" x2="{width - right}" y1="{top + tall}" y2="{top + tall}" class="axis"/>')
    return _svg(width, height, f"{title}, {_in_words(counts)}; class {parent} in front", body, "chart histogram")


def _bars(counts: Sequence[float], left: float, floor: float, wide: float, height: Callable[[float], float]) -> str:
    return "".join(
        f"M{left + place * wide:.1f},{floor:.1f}v{-height(count):.1f}h{max(wide - 0.5, 0.5):.1f}v{height(count):.1f}z"
        for place, count in enumerate(counts)
        if count
    )


def _in_words(counts: Histogram) -> str:
    middles = (counts.edges[1:] + counts.edges[:-1]) / 2
    commonest = middles[counts.all_parents.argmax()].item()
    filled = middles[counts.all_parents > 0]
    low, high = filled.min().item(), filled.max().item()
    return f"{int(counts.all_parents.sum()):,} values from {low:.2f} to {high:.2f}, most near {commonest:.2f}"


def _ticks(low: float, high: float) -> list[float]:
    """Return two to four round numbers in a range."""
    rough = (high - low) / 3
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) + 0.0 for number in range(first, math.floor(high / step + 1e-9) + 1)]


def columns(values: Sequence[float], classes: Sequence[str], title: str, colour: str, *, least_top: float = 0.0) -> str:
    """Draw a column for each class, the largest value in full colour, on an axis that reaches `least_top` at least."""
    width, tall, top = 210, 66, 18
    low, high = min(0.0, *values), max(least_top, *values)
    span = max(high - low, 1e-6)
    wide = width / len(values)
    floor = top + tall * high / span if high > 0 else top
    body = [_text(0, 10, f"{title}, up to {max(values):.2f}".replace("-", "−"), "faint small", "start")]
    for place, (name, value) in enumerate(zip(classes, values, strict=True)):
        x, bar = place * wide, tall * abs(value) / span
        y = floor - bar if value >= 0 else floor
        body.append(
            f'<rect x="{x + 0.14 * wide:.1f}" y="{y:.1f}" width="{0.72 * wide:.1f}" height="{max(bar, 0.5):.1f}" '
            f'fill="{colour}" opacity="{1 if value == max(values) else 0.5}"/>'
        )
        body.append(_text(x + wide / 2, top + tall + 13, _short(name, 5), "faint small"))
    body.append(f'<line x1="0" x2="{width}" y1="{floor:.1f}" y2="{floor:.1f}" class="axis"/>')
    in_words = ", ".join(f"{name} {value:.2f}" for name, value in zip(classes, values, strict=True))
    return _svg(width, top + tall + 18, f"One child's {title} for each class: {in_words}", body)


def position_map(
    image: Picture,
    contributions: Float[Tensor, "row column parent"],
    fields: Sequence[Sequence[ReceptiveField]],
    classes: Sequence[str],
) -> str:
    """Write over the image, at the centre of each receptive field, the class that its children support most."""
    strongest, parents = contributions.max(dim=-1)
    most = max(strongest.max().item(), 1e-9)
    spacing = fields[0][1].left - fields[0][0].left if len(fields[0]) > 1 else max(1.0, fields[0][0].size / 4)
    body = []
    for row, line in enumerate(fields):
        for column, field in enumerate(line):
            contribution = strongest[row, column].item()
            if contribution <= 0:
                continue
            x, y = field.left + field.size / 2, field.top + field.size / 2
            share = math.sqrt(contribution / most)
            name = _short(classes[int(parents[row, column])], 3)
            size = spacing * (0.45 + 0.6 * share) * (1 if len(name) == 1 else 0.6)
            body.append(
                f'<text x="{x:g}" y="{y + 0.35 * size:.2f}" font-size="{size:.2f}" class="vote" '
                f'opacity="{0.35 + 0.65 * share:.2f}">{escape(name)}</text>'
            )
    counted = parents.flatten().bincount(minlength=len(classes))
    commonest = counted.argsort(descending=True)[:3].tolist()
    in_words = ", ".join(f"{classes[parent]} {int(counted[parent])}" for parent in commonest)
    return _over(image, f"The class that each position supports most; positions by class: {in_words}", body)


def field_map(image: Picture, children: Sequence[tuple[Child, ReceptiveField]], name: str, colour: str) -> str:
    """Frame the receptive fields of children, strongest first."""
    body = []
    for place, (_, field) in enumerate(children):
        inset = 0.25 + 0.35 * place  # keeps the frames of one position apart
        size = field.size - 2 * inset
        body.append(
            f'<rect x="{field.left + inset:g}" y="{field.top + inset:g}" width="{size:g}" height="{size:g}" '
            f'fill="none" stroke="{colour}" stroke-width="0.35" opacity="{1 - 0.11 * place:.2f}"/>'
        )
    for place, (_, field) in enumerate(children):
        x, y = field.left + field.size / 2, field.top + field.size / 2
        body.append(f'<circle cx="{x:g}" cy="{y:g}" r="{1.15 - 0.08 * place:.2f}" fill="{colour}" class="dot"/>')
    where = "; ".join(f"type {child.type} at row {child.row}, column {child.column}" for child, _ in children)
    return _over(image, f"Receptive fields of the children with the largest coefficients for {name}: {where}", body)


def _over(image: Picture, alt: str, body: Sequence[str]) -> str:
    _, height, width = image.shape
    shown = f'<image href="{png_url(image * 0.75)}" width="{width}" height="{height}" class="pixels"/>'
    return _svg(width, height, alt, [shown, *body], "map")


def type_map(contributions: Float[Tensor, "type parent"], classes: Sequence[str], colour: str) -> str:
    """Draw a heat map of contributions: a column for each type of capsule, a row for each class."""
    types, parents = contributions.shape
    most = max(contributions.max().item(), 1e-9)
    cells = []
    for parent in range(parents):
        cells.append(f"<span>{escape(_short(classes[parent]))}</span>")
        for kind in range(types):
            share = max(0.0, contributions[kind, parent].item()) / most
            cells.append(f'<i style="opacity:{0.06 + 0.94 * share:.2f}"></i>')
    kind, parent = divmod(int(contributions.argmax()), parents)
    alt = f"Contributions by type of capsule and class; the largest is that of type {kind} to {classes[parent]}"
    return (
        f'<div class="heat" role="img" aria-label="{escape(alt)}" '
        f'style="--cell:{colour};grid-template-columns:auto repeat({types},minmax(0,1fr))">{"".join(cells)}</div>'
    )


def sheet(pictures: Float[Tensor, "value step channel height width"]) -> Picture:
    """Arrange pictures in rows with gaps of one pixel, as one picture."""
    values, steps, channels, height, width = pictures.shape
    laid = torch.zeros(channels, values * (height + 1) - 1, steps * (width + 1) - 1)
    for value in range(values):
        for step in range(steps):
            top, left = value * (height + 1), step * (width + 1)
            laid[:, top : top + height, left : left + width] = pictures[value, step]
    return laid
