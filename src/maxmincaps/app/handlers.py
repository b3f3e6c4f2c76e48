"""Event handlers of the explorer: what a visitor's action changes on the page."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from maxmincaps.app import panels, uploads
from maxmincaps.app.routed import Model, RoutedImage, child_index, route, strongest_children
from maxmincaps.errors import InputError
from maxmincaps.training.predict import Picture, central, in_proportion


@dataclass(frozen=True, eq=False)
class View:
    """What one visitor is looking at: an image, a note about it, and its routing on both sides."""

    image: Picture
    note: str
    sides: tuple[RoutedImage, RoutedImage]

    def draw(self, panel: Callable[..., str], *arguments: Any) -> list[str]:
        """Draw a panel of both sides, each in its own colour."""
        colours = panels.side_colours(*self.sides)
        return [panel(side, colour, *arguments) for side, colour in zip(self.sides, colours, strict=True)]


class Handlers:
    """Functions from the page's values to its outputs, in the order in which the page lists them.

    Those that take a view are not called before there is one. `size` is (height, width) of a test image, before the
    window that the network sees is cut from it.
    """

    def __init__(self, models: Sequence[Model], samples: uploads.Samples | None, size: tuple[int, int]) -> None:
        self.models = {model.name: model for model in models}
        self.first = models[0]
        self.samples = samples
        self.shape = (self.first.network.image_shape[0], *size)
        self.iterations = max(model.shown_iterations for model in models)
        self.pose_size = max(model.recipe.class_pose for model in models)
        # One thread decodes and routes for all visitors: a decoded picture is large, and so is what the allocator
        # keeps for each thread that has decoded one; torch uses all cores for one image anyway.
        self.worker = ThreadPoolExecutor(1)

    # New images

    def draw(self, event: gr.EventData, *networks: Any) -> list[Any]:
        """Show a drawing."""
        return self._show(lambda: uploads.prepare_drawing(_sent(event, "picture"), self.shape), networks)

    def upload(self, event: gr.EventData, *networks: Any) -> list[Any]:
        """Show an uploaded picture."""
        picture, invert = _sent(event, "picture"), _sent(event, "invert") is True
        keep = in_proportion(self.first.recipe)
        return self._show(lambda: uploads.prepare_upload(picture, self.shape, invert, in_proportion=keep), networks)

    def sample(self, number: Any, *networks: Any) -> list[Any]:
        """Show a test image."""
        if not (samples := self.samples):
            return self._unchanged("")
        return self._show(lambda: samples.prepare(_whole(number, 0, len(samples.images) - 1)), networks)

    def random_image(self, number: Any) -> int:
        """Choose a test image at random."""
        return self.samples.choose() if self.samples else number

    def misclassified_image(self, number: Any) -> int:
        """Choose a test image that the first run gets wrong."""
        return self.samples.choose(self.samples.wrong) if self.samples else number

    def _show(self, prepare: Callable[[], uploads.PreparedImage | None], networks: Sequence[Any]) -> list[Any]:
        try:
            prepared = self.worker.submit(prepare).result()
        except InputError as error:
            return self._unchanged(f"This cannot be shown: {error}.")
        if prepared is None:
            return self._unchanged("")
        image = central(prepared.image, self.first.recipe)  # leaves a test image as it is
        height, width = image.shape[1:]
        cut = f", seen through its central {width}×{height}" if image.shape != prepared.image.shape else ""
        return self._route(image, prepared.note + cut, networks)

    def _unchanged(self, problem: str) -> list[Any]:
        note = f'<p class="trouble" role="alert">{escape(problem)}</p>' if problem else ""
        rest = 2 * 4 + 1 + 3 + self.pose_size + 1  # panels, class, child, the capsule's values, its reconstruction
        return [gr.skip(), note, *[gr.skip()] * rest]

    def reroute(self, view: View, *networks: Any) -> list[Any]:
        """Route the same image with the networks and normalizations that are chosen now."""
        return self._route(view.image, view.note, networks)

    def _route(self, image: Picture, note: str, networks: Sequence[Any]) -> list[Any]:
        *chosen, iteration, side = networks
        left, right = (
            self.worker.submit(route, image, self.models[run], normalization, self.iterations).result()
            for run, normalization in (chosen[:2], chosen[2:])
        )
        view, step = View(image, note, (left, right)), self._step(iteration)
        parent = left.predicted(step)
        strongest = strongest_children(left, step, parent, 1)
        child = strongest[0][1:4] if strongest else (0, 0, 0)
        return [
            view,
            f'<p aria-live="polite">{escape(note)}</p>',
            *view.draw(panels.answer, step),
            *view.draw(panels.histograms, step, parent),
            *view.draw(panels.support, step, parent),
            left.model.classes[parent],
            *child,
            *self.change_child(view, iteration, *child),
            *self.reset_pose(view, iteration, side),
        ]

    # Other parts of the same view

    def change_iteration(self, view: View, iteration: Any, parent: str, *rest: Any) -> list[Any]:
        """Show another iteration."""
        *child, side = rest
        return [
            *view.draw(panels.answer, self._step(iteration)),
            *self.change_class(view, iteration, parent),
            *self.change_child(view, iteration, *child),
            *self.reset_pose(view, iteration, side),
        ]

    def change_class(self, view: View, iteration: Any, parent: str) -> list[Any]:
        """Show the logits, coefficients and contributions of another class."""
        step, number = self._step(iteration), self.first.classes.index(parent)
        return [*view.draw(panels.histograms, step, number), *view.draw(panels.support, step, number)]

    def change_child(self, view: View, iteration: Any, *child: Any) -> list[Any]:
        """Show another child."""
        step, place = self._step(iteration), [_whole(part, 0, 1 << 20) for part in child]

        def draw(side: RoutedImage, colour: str) -> str:
            return panels.one_child(side, colour, step, child_index(side.model, *place))

        return view.draw(draw)

    def reset_pose(self, view: View, iteration: Any, side: str) -> list[Any]:
        """Set the sliders to the values of the predicted class's capsule."""
        found, step = view.sides[side == "right"], self._step(iteration)
        pose = found.poses[step, found.predicted(step)].tolist()
        shown = [gr.update(value=round(value, 2), visible=True) for value in pose]
        unused = [gr.update(value=0, visible=False)] * (self.pose_size - len(pose))
        return [*shown, *unused, panels.capsule(found, step, pose)]

    def decode_pose(self, view: View, iteration: Any, side: str, *pose: Any) -> str:
        """Show the reconstruction from the values of the sliders."""
        return self._decode(panels.capsule, view, iteration, side, pose)

    def decode_perturbations(self, view: View, iteration: Any, side: str, *pose: Any) -> str:
        """Show the reconstructions with each value of the sliders moved a little."""
        return self._decode(panels.perturbed, view, iteration, side, pose)

    def _decode(self, panel: Callable[..., str], view: View, iteration: Any, side: str, pose: Sequence[Any]) -> str:
        found, step = view.sides[side == "right"], self._step(iteration)
        return panel(found, step, [min(1.0, max(-1.0, float(value))) for value in pose[: found.poses.shape[2]]])

    def _step(self, iteration: Any) -> int:
        return _whole(iteration, 1, self.iterations) - 1


def _sent(event: gr.EventData, name: str) -> Any:
    """Return a part of what the browser sent with an event, which may be anything."""
    sent = event._data
    return sent.get(name, "") if isinstance(sent, dict) else ""


def _whole(value: Any, low: int, high: int) -> int:
    """Return a whole number in a range, whatever the browser sent."""
    number = value if isinstance(value, int | float) and value == value else low
    return int(min(max(number, low), high))
