"""What the explorer shows of one look, section by section, as HTML."""

from collections.abc import Sequence
from html import escape

from maxmincaps.app import answers, drawings
from maxmincaps.app.answers import Look
from maxmincaps.training.predict import recognised
from maxmincaps.wording import pluralize

COLOURS = {"softmax": "var(--softmax)", "max-min": "var(--max-min)"}


def colour_of(found: Look) -> str:
    """Give a normalization's colour: blue is Max-Min, orange is Softmax, everywhere."""
    return COLOURS.get(found.normalization, "var(--other)")


def answer(found: Look, iteration: int) -> str:
    """Show the class, the lengths of all classes, and the reconstruction."""
    classes, winner = found.model.classes, found.winner(iteration)
    values = found.lengths[iteration].tolist()
    said, length = escape(classes[winner]), f"length {values[winner]:.2f}"
    if not recognised(values[winner], found.model.recipe):
        said, length = "nothing", f"recognised, {length}"
    drawn = answers.reconstruction(found, iteration)
    pictures = drawings.picture(found.image, "What the network sees", "input")
    pictures += drawings.picture(drawn, f"What the capsule of {classes[winner]} draws", "reconstruction")
    names = " · ".join(dict.fromkeys((found.model.name, found.normalization)))  # a run is often named by the other
    after = pluralize(iteration + 1, "iteration") + _otherwise_trained(found, iteration)
    return (
        f'<div class="answer"><p class="said" aria-live="polite"><b style="color:{colour_of(found)}">{said}</b> '
        f"<span>{length}</span></p>"
        f'<p class="faint">{escape(names)} · after {after}</p>'
        f'<div class="pair">{pictures}</div>{drawings.lengths(values, classes, colour_of(found))}</div>'
    )


def routing(found: Look, iteration: int, parent: int) -> str:
    """Show histograms of logits and couplings."""
    name, colour = found.model.classes[parent], colour_of(found)
    parts = []
    for quantity in ("logits", "couplings"):
        counts = answers.histogram(found, iteration, quantity, parent)
        words = f"Histogram of {quantity} at iteration {iteration + 1}"
        parts.append(f"<h4>{quantity}</h4>{drawings.histogram(counts, words, name, colour)}")
    return f'<div class="routing">{"".join(parts)}</div>'


def voters(found: Look, iteration: int, parent: int) -> str:
    """Show which places and types voted for which class, and the strongest couplings to one class."""
    model, name = found.model, found.model.classes[parent]
    _, rows, columns = model.network.grid
    fields = [[answers.receptive_field(model, row, column) for column in range(columns)] for row in range(rows)]
    children = answers.strongest(found, iteration, parent)
    framed = [(child, fields[child.row][child.column]) for child in children]
    lines = "".join(
        f"<tr><td>{child.type}</td><td>{child.row}, {child.column}</td><td>{child.coupling:.3f}</td>"
        f"<td>{child.push:.3f}</td></tr>"
        for child in children
    )
    maps = (
        f"<figure>{drawings.place_map(found.image, answers.by_place(found, iteration), fields, model.classes)}"
        "<figcaption>the class each place speaks for</figcaption></figure>"
        f"<figure>{drawings.strongest_map(found.image, framed, name, colour_of(found))}"
        f"<figcaption>strongest couplings to {escape(name)}: what they see</figcaption></figure>"
    )
    table = (
        "<table><thead><tr><th>type</th><th>row, column</th><th>coupling</th><th>push</th></tr></thead>"
        f"<tbody>{lines or '<tr><td colspan=4>no child is alive</td></tr>'}</tbody></table>"
    )
    types = drawings.type_map(answers.by_type(found, iteration), model.classes, colour_of(found))
    return f'<div class="voters"><div class="pair maps">{maps}</div>{table}{types}</div>'


def one_child(found: Look, iteration: int, number: int) -> str:
    """Show one child's logits and couplings over all parents, and what it sees."""
    model = found.model
    couplings = found.couplings[iteration, number]
    parent = int(couplings.argmax())
    child = answers.child(found, iteration, number, parent)
    field = answers.receptive_field(model, child.row, child.column)
    alive = bool(found.agreements[iteration, number].abs().amax() > 0)
    if not alive:
        said = "is dead here: its vote is zero"
    elif couplings.max() == couplings.min():
        said = "is coupled to all classes alike"
    else:
        said = f"is coupled most to {escape(model.classes[parent])}"
    rows = drawings.child_rows(
        found.logits[iteration, number].tolist(),
        couplings.tolist(),
        model.classes,
        colour_of(found),
    )
    seen = drawings.strongest_map(found.image, [(child, field)], model.classes[parent], colour_of(found))
    return (
        f'<div class="child"><p class="faint">child {number} of {found.logits.shape[1]:,} {said}</p>'
        f'<div class="beside"><figure>{seen}<figcaption>what it sees</figcaption></figure>{rows}</div></div>'
    )


def capsule(found: Look, iteration: int, pose: Sequence[float]) -> str:
    """Show what the winning capsule draws with the numbers that the sliders have."""
    name = found.model.classes[found.winner(iteration)]
    before = answers.reconstruction(found, iteration)
    after = answers.reconstruction(found, iteration, pose)
    moved = max(abs(now - then) for now, then in zip(pose, _pose(found, iteration), strict=True)) > 5e-3
    pair = drawings.picture(before, f"The reconstruction of {name} as routed", "as routed")
    pair += drawings.picture(after, f"The reconstruction of {name} with your numbers", "with your numbers")
    said = "the sliders stand as routing left them" if not moved else "moved"
    words = f'<p class="faint">the capsule of {escape(name)}: {said}</p>'
    return f'<div class="capsule">{words}<div class="pair">{pair}</div></div>'


def perturbed(found: Look, iteration: int, pose: Sequence[float]) -> str:
    """Show each number of the winning capsule moved from −0.25 to 0.25."""
    laid = drawings.sheet(answers.perturbations(found, iteration, pose))
    words = f"{len(pose)} rows, one for each number of the capsule, moved from −0.25 at the left to 0.25 at the right"
    return f'<figure class="picture sheet"><img src="{drawings.png_url(laid)}" alt="{words}"></figure>'


def _otherwise_trained(found: Look, iteration: int) -> str:
    """Say in what a look differs from how its network was trained."""
    recipe = found.model.recipe
    trained = [recipe.normalization] * (found.normalization != recipe.normalization)
    trained += [pluralize(recipe.iterations, "iteration")] * (iteration + 1 != recipe.iterations)
    return escape(f"; trained with {' and '.join(trained)}") if trained else ""


def _pose(found: Look, iteration: int) -> list[float]:
    return found.poses[iteration, found.winner(iteration)].tolist()
