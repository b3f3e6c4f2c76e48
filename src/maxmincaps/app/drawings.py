"""Small drawings as SVG text: made in a millisecond, sharp at every size, light or dark with the page around them.

Each has a `role="img"` and an alternative text that says what it shows. Colours are the page's variables.
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

from maxmincaps.app.answers import Child, Counts, Field, Picture


def png_url(picture: Picture) -> str:
    """Give an image as the address of a PNG that is written inside it."""
    pixels = picture.detach().clamp(0, 1).mul(255).round().to(torch.uint8)
    found = Image.fromarray(pixels[0].numpy() if len(pixels) == 1 else pixels.permute(1, 2, 0).numpy())
    buffer = io.BytesIO()
    found.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def picture(image: Picture, words: str, caption: str = "") -> str:
    """Show an image with sharp pixels, and its caption."""
    under = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="picture"><img src="{png_url(image)}" alt="{escape(words)}">{under}</figure>'


def _drawing(width: float, height: float, words: str, body: Sequence[str], kind: str = "") -> str:
    """Close a drawing; it grows with its column up to its natural width."""
    return (
        f'<svg class="drawing {kind}" viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px" role="img" '
        f'aria-label="{escape(words)}">{"".join(body)}</svg>'
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _short(name: str, most: int = 9) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def lengths(values: Sequence[float], classes: Sequence[str], colour: str) -> str:
    """Draw a bar for each class, the longest one strong."""
    width, row, left = 360, 20, 18 + 7 * min(9, max(map(len, classes)))
    longest = max(range(len(values)), key=lambda place: values[place])
    scale = width - left - 42
    body = []
    for place, (name, value) in enumerate(zip(classes, values, strict=True)):
        top, strength = place * row, 1 if place == longest else 0.45
        body += [
            _text(left - 8, top + 14, _short(name), "strong" if place == longest else "", "end"),
            f'<rect x="{left}" y="{top + 3}" width="{scale}" height="13" rx="2" class="track"/>',
            f'<rect x="{left}" y="{top + 3}" width="{max(0.5, value * scale):.1f}" height="13" rx="2" '
            f'fill="{colour}" opacity="{strength}"/>',
            _text(width, top + 14, f"{value:.2f}", "strong" if place == longest else "faint", "end"),
        ]
    told = ", ".join(f"{name} {value:.2f}" for name, value in zip(classes, values, strict=True))
    return _drawing(width, row * len(values), f"Length of each class: {told}", body)


def histogram(counts: Counts, words: str, parent: str, colour: str) -> str:
    """Draw counts on a logarithmic scale: all in a pale colour, those of one class in front in a strong one."""
    width, height, left, bottom = 360, 150, 42, 24
    most = max(10.0, counts.everywhere.max().item())
    tall, wide = height - bottom - 8, (width - left - 6) / len(counts.everywhere)

    def rise(count: float) -> float:
        return tall * (math.log10(count) + 0.3) / (math.log10(most) + 0.3) if count else 0.0

    body = []
    for power in range(math.floor(math.log10(most)) + 1):
        y = 8 + tall - rise(10.0**power)
        body.append(f'<line x1="{left}" x2="{width - 6}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        body.append(_text(left - 5, y + 4, f"{10**power:,}", "faint small", "end"))
    for kind, bars, opacity in (("all", counts.everywhere, 0.32), ("one", counts.of_parent, 1)):
        body.append(f'<path class="{kind}" d="{_bars(bars.tolist(), left, 8 + tall, wide, rise)}" fill="{colour}" ')
        body[-1] += f'opacity="{opacity}"/>'
    low, high = counts.edges[0].item(), counts.edges[-1].item()
    for value in _ticks(low, high):
        x = left + (value - low) / (high - low) * wide * len(counts.everywhere)
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{8 + tall}" y2="{11 + tall}" class="axis"/>')
        body.append(_text(x, height - 4, f"{value:g}".replace("-", "−"), "faint small"))
    body.append(f'<line x1="{left}" x2="{width - 6}" y1="{8 + tall}" y2="{8 + tall}" class="axis"/>')
    return _drawing(width, height, f"{words}, {_in_words(counts)}; class {parent} in front", body, "histogram")


def _bars(counts: Sequence[float], left: float, floor: float, wide: float, rise: Callable[[float], float]) -> str:
    return "".join(
        f"M{left + place * wide:.1f},{floor:.1f}v{-rise(count):.1f}h{max(wide - 0.6, 0.6):.1f}v{rise(count):.1f}z"
        for place, count in enumerate(counts)
        if count
    )


def _in_words(counts: Counts) -> str:
    middles = (counts.edges[1:] + counts.edges[:-1]) / 2
    commonest = middles[counts.everywhere.argmax()].item()
    held = middles[counts.everywhere > 0]
    low, high = held.min().item(), held.max().item()
    return f"{int(counts.everywhere.sum()):,} values from {low:.2f} to {high:.2f}, most near {commonest:.2f}"


def _ticks(low: float, high: float) -> list[float]:
    """Give about four round numbers between two."""
    rough = (high - low) / 4
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) + 0.0 for number in range(first, math.floor(high / step + 1e-9) + 1)]


def child_rows(logits: Sequence[float], couplings: Sequence[float], classes: Sequence[str], colour: str) -> str:
    """Draw one child's logits and couplings over its parents."""
    panels = [_columns(logits, classes, "logits", colour, 0), _columns(couplings, classes, "couplings", colour, 1)]
    told = ", ".join(f"{name} {value:.2f}" for name, value in zip(classes, couplings, strict=True))
    return _drawing(300, 2 * 92, f"One child's couplings over the parents: {told}", panels)


def _columns(values: Sequence[float], classes: Sequence[str], words: str, colour: str, panel: int) -> str:
    width, tall, left, top = 300, 52, 24, 18 + panel * 92
    low = min(0.0, *values)
    high = max(1.0 if words == "couplings" else 0.0, *values)
    span = max(high - low, 1e-6)
    wide = (width - left) / len(values)
    floor = top + tall * high / span if high > 0 else top
    body = [_text(0, top - 6, f"{words}, up to {max(values):.2f}".replace("-", "−"), "faint small", "start")]
    for place, (name, value) in enumerate(zip(classes, values, strict=True)):
        x, bar = left + place * wide, tall * abs(value) / span
        y = floor - bar if value >= 0 else floor
        strength = 1 if value == max(values) else 0.5
        body.append(
            f'<rect x="{x + 0.14 * wide:.1f}" y="{y:.1f}" width="{0.72 * wide:.1f}" height="{max(bar, 0.5):.1f}" '
            f'fill="{colour}" opacity="{strength}"/>'
        )
        body.append(_text(x + wide / 2, top + tall + 14, _short(name, 5), "faint small"))
    body.append(f'<line x1="{left}" x2="{width}" y1="{floor:.1f}" y2="{floor:.1f}" class="axis"/>')
    return "".join(body)


def place_map(
    image: Picture,
    votes: Float[Tensor, "row column parent"],
    fields: Sequence[Sequence[Field]],
    classes: Sequence[str],
) -> str:
    """Write over the image, at the centre of what each place sees, the class that the place speaks for most."""
    strongest, parents = votes.max(dim=-1)
    most = max(strongest.max().item(), 1e-9)
    spacing = _spacing(fields)
    body = []
    for row, line in enumerate(fields):
        for column, field in enumerate(line):
            push = strongest[row, column].item()
            if push <= 0:
                continue
            x, y = field.left + field.size / 2, field.top + field.size / 2
            share = math.sqrt(push / most)
            name = _short(classes[int(parents[row, column])], 3)
            size = spacing * (0.45 + 0.6 * share) * (1 if len(name) == 1 else 0.6)
            body.append(
                f'<text x="{x:g}" y="{y + 0.35 * size:.2f}" font-size="{size:.2f}" class="vote" '
                f'opacity="{0.35 + 0.65 * share:.2f}">{escape(name)}</text>'
            )
    counted = parents.flatten().bincount(minlength=len(classes))
    most_places = counted.argsort(descending=True)[:3].tolist()
    told = ", ".join(f"{classes[parent]} {int(counted[parent])}" for parent in most_places)
    return _over(image, f"Which class each place speaks for most; places by class: {told}", body)


def _spacing(fields: Sequence[Sequence[Field]]) -> float:
    if len(fields[0]) > 1:
        return fields[0][1].left - fields[0][0].left
    return max(1.0, fields[0][0].size / 4)


def strongest_map(image: Picture, children: Sequence[tuple[Child, Field]], name: str, colour: str) -> str:
    """Frame the windows of the children that are coupled most strongly to a class, numbered in order."""
    body = []
    for place, (_, field) in enumerate(children):
        inset = 0.25 + 0.35 * place  # frames of the same place stay apart
        size = field.size - 2 * inset
        body.append(
            f'<rect x="{field.left + inset:g}" y="{field.top + inset:g}" width="{size:g}" height="{size:g}" '
            f'fill="none" stroke="{colour}" stroke-width="0.35" opacity="{1 - 0.11 * place:.2f}"/>'
        )
    for place, (_, field) in enumerate(children):
        x, y = field.left + field.size / 2, field.top + field.size / 2
        body.append(f'<circle cx="{x:g}" cy="{y:g}" r="{1.15 - 0.08 * place:.2f}" fill="{colour}" class="dot"/>')
    told = "; ".join(f"type {child.type} at row {child.row}, column {child.column}" for child, _ in children)
    return _over(image, f"What the children most strongly coupled to {name} see: {told or 'none'}", body)


def _over(image: Picture, words: str, body: Sequence[str]) -> str:
    _, height, width = image.shape
    shown = f'<image href="{png_url(image * 0.75)}" width="{width}" height="{height}" class="pixels"/>'
    return (
        f'<svg class="map" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(words)}">'
        f"{shown}{''.join(body)}</svg>"
    )


def type_map(votes: Float[Tensor, "type parent"], classes: Sequence[str], colour: str) -> str:
    """Draw which types of capsules speak for which class: a column for each type, a row for each class."""
    types, parents = votes.shape
    left, cell = 10 + 6.5 * min(9, max(map(len, classes))), 14
    wide = min(24, (360 - left) / types)
    most = max(votes.max().item(), 1e-9)
    body = []
    for parent in range(parents):
        body.append(_text(left - 5, parent * cell + 11, _short(classes[parent]), "faint small", "end"))
        for kind in range(types):
            share = max(0.0, votes[kind, parent].item()) / most
            body.append(
                f'<rect x="{left + kind * wide:.2f}" y="{parent * cell}" width="{wide - 0.7:.2f}" height="{cell - 1}" '
                f'fill="{colour}" opacity="{0.06 + 0.94 * share:.2f}"/>'
            )
    body.append(_text(left, parents * cell + 13, f"{types} types of capsules", "faint small", "start"))
    kind, parent = divmod(int(votes.argmax()), parents)
    words = f"Which types speak for which class; type {kind} speaks most, for {classes[parent]}"
    return _drawing(360, parents * cell + 17, words, body)


def sheet(pictures: Float[Tensor, "number step channel height width"]) -> Picture:
    """Lay pictures out in rows, with a gap of a pixel, as one picture."""
    numbers, steps, channels, height, width = pictures.shape
    laid = torch.zeros(channels, numbers * (height + 1) - 1, steps * (width + 1) - 1)
    for number in range(numbers):
        for step in range(steps):
            top, left = number * (height + 1), step * (width + 1)
            laid[:, top : top + height, left : left + width] = pictures[number, step]
    return laid
