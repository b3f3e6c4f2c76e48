"""The explorer's panels about one routed image, as HTML."""

from collections.abc import Sequence
from html import escape

from maxmincaps.app import drawings, routed
from maxmincaps.app.routed import Quantity, RoutedImage
from maxmincaps.training.predict import recognised
from maxmincaps.wording import pluralize

COLOURS = {"softmax": "var(--softmax)", "max-min": "var(--max-min)"}
TITLES: dict[Quantity, str] = {"logits": "Logits", "couplings": "Routing coefficients"}


def side_colours(left: RoutedImage, right: RoutedImage) -> tuple[str, str]:
    """Return a colour for each side: that of its normalization, and another one if both have the same."""
    first, second = (COLOURS.get(one.normalization, "var(--other)") for one in (left, right))
    return first, second if second != first else "var(--second)"


def answer(found: RoutedImage, colour: str, iteration: int) -> str:
    """Show the predicted class, the length of every class capsule, and the reconstruction."""
    classes, predicted = found.model.classes, found.predicted(iteration)
    values = found.lengths[iteration].tolist()
    result, length = escape(classes[predicted]), f"length {values[predicted]:.2f}"
    if not recognised(values[predicted], found.model.recipe):
        result, length = "nothing", f"recognised, {length}"
    decoded = routed.reconstruction(found, iteration)
    pictures = drawings.picture(found.image, "The image as the network sees it", "input")
    pictures += drawings.picture(decoded, f"The reconstruction of {classes[predicted]}", "reconstruction")
    # A run is often named by its normalization, which need not be repeated.
    repeated = found.normalization in found.model.name.split(", ")
    names = found.model.name if repeated else f"{found.model.name} · {found.normalization}"
    after = pluralize(iteration + 1, "iteration") + _difference_from_training(found, iteration)
    return (
        f'<div class="answer"><p class="result" aria-live="polite"><b style="color:{colour}">{result}</b> '
        f'<span>{length}</span></p><p class="faint">{escape(names)} · after {after}</p>'
        f'<div class="evidence"><div>{pictures}</div>{drawings.lengths(values, classes, colour)}</div></div>'
    )


def histograms(found: RoutedImage, colour: str, iteration: int, parent: int) -> str:
    """Show histograms of logits and routing coefficients."""
    name, parts = found.model.classes[parent], []
    for quantity, title in TITLES.items():
        counts = routed.histogram(found, iteration, quantity, parent)
        words = f"Histogram of {title.lower()} at iteration {iteration + 1}"
        parts.append(f"<div><h4>{title}</h4>{drawings.histogram(counts, words, name, colour)}</div>")
    legend = f"counts: class {escape(name)} in front, all classes pale"
    return f'<div class="pair">{"".join(parts)}</div><p class="faint">{legend}</p>'


def support(found: RoutedImage, colour: str, iteration: int, parent: int) -> str:
    """Show which positions and types of children support which class, and the largest coefficients for one class."""
    model, name = found.model, found.model.classes[parent]
    _, rows, columns = model.network.grid
    fields = [[routed.receptive_field(model, row, column) for column in range(columns)] for row in range(rows)]
    children = routed.strongest_children(found, iteration, parent)
    framed = [(child, fields[child.row][child.column]) for child in children]
    by_position = routed.contributions_by_position(found, iteration)
    lines = "".join(
        f"<tr><td>{child.type}</td><td>{child.row}, {child.column}</td><td>{child.coupling:.3f}</td>"
        f"<td>{child.contribution:.3f}</td></tr>"
        for child in children
    )
    return (
        f'<div class="support"><div class="pair">'
        f"<figure>{drawings.position_map(found.image, by_position, fields, model.classes)}"
        "<figcaption>the class that each position supports most</figcaption></figure>"
        f"<figure>{drawings.field_map(found.image, framed, name, colour)}"
        f"<figcaption>receptive fields of the largest coefficients for {escape(name)}</figcaption></figure></div>"
        "<table><thead><tr><th>type</th><th>row, column</th><th>coefficient</th><th>contribution</th></tr></thead>"
        f"<tbody>{lines or '<tr><td colspan=4>every child is inactive</td></tr>'}</tbody></table>"
        f"{drawings.type_map(routed.contributions_by_type(found, iteration), model.classes, colour)}"
        f'<p class="faint">contributions of {model.network.grid[0]} types of capsules, one column each</p></div>'
    )


def one_child(found: RoutedImage, colour: str, iteration: int, index: int) -> str:
    """Show one child's receptive field, and its logits and routing coefficients for every class."""
    model = found.model
    couplings = found.couplings[iteration, index]
    parent = int(couplings.argmax())
    child = routed.child_at(found, iteration, index, parent)
    field = routed.receptive_field(model, child.row, child.column)
    if not found.active_children(iteration)[index]:
        state = "is inactive: its prediction vectors are zero"
    elif couplings.max() == couplings.min():
        state = "has the same coefficient for every class"
    else:
        state = f"has its largest coefficient for {escape(model.classes[parent])}"
    logits = drawings.columns(found.logits[iteration, index].tolist(), model.classes, "logits", colour)
    coefficients = drawings.columns(couplings.tolist(), model.classes, "routing coefficients", colour, least_top=1.0)
    seen = drawings.field_map(found.image, [(child, field)], model.classes[parent], colour)
    return (
        f'<div class="child"><p class="faint">child {index} of {found.logits.shape[1]:,} {state}</p>'
        f'<div class="beside"><figure>{seen}<figcaption>receptive field</figcaption></figure>'
        f"{logits}{coefficients}</div></div>"
    )


def capsule(found: RoutedImage, iteration: int, pose: Sequence[float]) -> str:
    """Show the reconstruction from the predicted class's capsule, as routed and with the values of the sliders."""
    name = found.model.classes[found.predicted(iteration)]
    before, after = routed.reconstruction(found, iteration), routed.reconstruction(found, iteration, pose)
    unchanged = found.poses[iteration, found.predicted(iteration)].tolist()
    moved = max(abs(now - then) for now, then in zip(pose, unchanged, strict=True)) > 5e-3
    pair = drawings.picture(before, f"The reconstruction of {name} as routed", "as routed")
    pair += drawings.picture(after, f"The reconstruction of {name} with the values of the sliders", "with the sliders")
    state = "values changed" if moved else "values as routed"
    return f'<p class="faint">capsule of {escape(name)}: {state}</p><div class="pair">{pair}</div>'


def perturbed(found: RoutedImage, iteration: int, pose: Sequence[float]) -> str:
    """Show each value of the predicted class's capsule moved from −0.25 to 0.25."""
    laid = drawings.sheet(routed.perturbations(found, iteration, pose))
    alt = f"{len(pose)} rows, one for each value of the capsule, moved from −0.25 at the left to 0.25 at the right"
    return f'<figure class="picture sheet"><img src="{drawings.png_url(laid)}" alt="{alt}"></figure>'


def _difference_from_training(found: RoutedImage, iteration: int) -> str:
    recipe = found.model.recipe
    trained = [recipe.normalization] * (found.normalization != recipe.normalization)
    trained += [pluralize(recipe.iterations, "iteration")] * (iteration + 1 != recipe.iterations)
    return escape(f"; trained with {' and '.join(trained)}") if trained else ""
