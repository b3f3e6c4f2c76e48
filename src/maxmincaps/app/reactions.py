"""What happens when a part of the explorer's page is moved: what comes in, and what is shown of it."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from maxmincaps.app import answers, panels, uploads
from maxmincaps.app.answers import Look, Model, Picture
from maxmincaps.app.samples import Samples
from maxmincaps.errors import InputError
from maxmincaps.training.predict import central, in_proportion


@dataclass(frozen=True, eq=False)
class View:
    """What one visitor is looking at."""

    image: Picture
    note: str
    looks: tuple[Look, Look]


class Reactions:
    """Gives for each part of the page what its being moved changes, in the order in which the page shows it."""

    def __init__(self, models: Sequence[Model], samples: Samples | None, size: tuple[int, int]) -> None:
        self.models = {model.name: model for model in models}
        self.first = models[0]
        self.samples = samples
        self.shape = (self.first.network.image_shape[0], *size)  # of a test image, before its window is cut
        self.iterations = max(model.shown_iterations for model in models)
        self.numbers = max(model.recipe.class_pose for model in models)
        self.redrawn = 2 * 4 + self.numbers + 1  # four panels of two sides, a capsule's numbers, and what it draws
        # One thread decodes and routes for all visitors: a decoded picture is large, and so is what the allocator
        # keeps for each thread that has decoded one; torch uses all cores for one image anyway.
        self.worker = ThreadPoolExecutor(1)

    # Pictures come in

    def draw(self, event: gr.EventData, *networks: Any) -> list[Any]:
        """Take a drawing."""
        return self._taken(lambda shape: uploads.prepare_drawing(_sent(event, "picture"), shape), networks)

    def upload(self, event: gr.EventData, *networks: Any) -> list[Any]:
        """Take an upload."""
        picture, swap = _sent(event, "picture"), _sent(event, "swap") is True
        kept = in_proportion(self.first.recipe)
        return self._taken(lambda shape: uploads.prepare_upload(picture, shape, swap, in_proportion=kept), networks)

    def sample(self, number: Any, *networks: Any) -> list[Any]:
        """Take a test image."""
        if not self.samples:
            return self._nothing("")
        return self._taken(lambda _: self.samples.take(_whole(number, 0, len(self.samples.images) - 1)), networks)

    def any_number(self, number: Any) -> int:
        """Choose a test image at random."""
        return self.samples.another(None) if self.samples else number

    def wrong_number(self, number: Any) -> int:
        """Choose a test image that the first run gets wrong."""
        return self.samples.another(self.samples.wrong) if self.samples else number

    def _taken(
        self, take: Callable[[tuple[int, int, int]], uploads.PreparedImage | None], networks: Sequence[Any]
    ) -> list[Any]:
        try:
            taken = self.worker.submit(take, self.shape).result()
        except InputError as error:
            return self._nothing(f"This cannot be shown: {error}.")
        if taken is None:
            return self._nothing("")
        image = central(taken.image, self.first.recipe)  # a test image is cut already, and stays as it is
        height, width = image.shape[1:]
        cut = f", seen through its central {width}×{height}" if image.shape != taken.image.shape else ""
        return self._routed(image, taken.note + cut, networks)

    def _nothing(self, words: str) -> list[Any]:
        said = f'<p class="trouble" role="alert">{escape(words)}</p>' if words else ""
        class_and_place = 1 + 3
        return [gr.skip(), said, *[gr.skip()] * (class_and_place + self.redrawn)]

    # Pictures are routed and shown

    def again(self, view: View | None, *networks: Any) -> list[Any]:
        """Route the same image through what is chosen now."""
        return self._routed(view.image, view.note, networks) if view else self._nothing("")

    def _routed(self, image: Picture, note: str, networks: Sequence[Any]) -> list[Any]:
        left_run, left_name, right_run, right_name, iteration, whose = networks
        left, right = (self.models[left_run], left_name), (self.models[right_run], right_name)
        routed = self.worker.submit(answers.side_by_side, image, left, right, self.iterations)
        view = View(image, note, routed.result())
        step = self._step(iteration)
        first = view.looks[0]
        parent = first.winner(step)
        found = answers.strongest(first, step, parent, 1)
        place = found[0][1:4] if found else (0, 0, 0)
        return [
            view,
            f'<p aria-live="polite">{escape(note)}</p>',
            *(panels.answer(look, step) for look in view.looks),
            *(panels.routing(look, step, parent) for look in view.looks),
            *(panels.voters(look, step, parent) for look in view.looks),
            first.model.classes[parent],
            *place,
            *self.of_child(view, iteration, *place),
            *self.as_routed(view, iteration, whose),
        ]

    def at_iteration(self, view: View | None, iteration: Any, parent: str, *rest: Any) -> list[Any]:
        """Show another iteration of the same routing."""
        *place, whose = rest
        if view is None:
            return [gr.skip()] * self.redrawn
        step = self._step(iteration)
        return [
            *(panels.answer(look, step) for look in view.looks),
            *self.of_class(view, iteration, parent),
            *self.of_child(view, iteration, *place),
            *self.as_routed(view, iteration, whose),
        ]

    def of_class(self, view: View | None, iteration: Any, parent: str) -> list[Any]:
        """Show what was voted for a class."""
        if view is None:
            return [gr.skip()] * 4
        step, number = self._step(iteration), self.first.classes.index(parent)
        return [
            *(panels.routing(look, step, number) for look in view.looks),
            *(panels.voters(look, step, number) for look in view.looks),
        ]

    def of_child(self, view: View | None, iteration: Any, *place: Any) -> list[Any]:
        """Show one child."""
        if view is None:
            return [gr.skip()] * 2
        step = self._step(iteration)
        where = [_whole(part, 0, 1 << 20) for part in place]
        return [panels.one_child(look, step, answers.number_of(look.model, *where)) for look in view.looks]

    def _step(self, iteration: Any) -> int:
        return _whole(iteration, 1, self.iterations) - 1

    # The winning capsule

    def as_routed(self, view: View | None, iteration: Any, whose: str) -> list[Any]:
        """Set the sliders to the numbers of the winning capsule."""
        if view is None:
            return [gr.skip()] * (self.numbers + 1)
        look, step = view.looks[whose == "right"], self._step(iteration)
        pose = look.poses[step, look.winner(step)].tolist()
        shown = [gr.update(value=round(value, 2), visible=True) for value in pose]
        unused = [gr.update(value=0, visible=False)] * (self.numbers - len(pose))
        return [*shown, *unused, panels.capsule(look, step, pose)]

    def moved(self, view: View | None, iteration: Any, whose: str, *pose: Any) -> Any:
        """Draw the capsule with the numbers of the sliders."""
        return self._with_numbers(panels.capsule, view, iteration, whose, pose)

    def all_moved(self, view: View | None, iteration: Any, whose: str, *pose: Any) -> Any:
        """Draw the capsule with each of the sliders' numbers moved a little."""
        return self._with_numbers(panels.perturbed, view, iteration, whose, pose)

    def _with_numbers(
        self, draw: Callable[..., str], view: View | None, iteration: Any, whose: str, pose: Sequence[Any]
    ) -> Any:
        if view is None:
            return gr.skip()
        look, step = view.looks[whose == "right"], self._step(iteration)
        numbers = [min(1.0, max(-1.0, float(value))) for value in pose[: look.poses.shape[2]]]
        return draw(look, step, numbers)


def _sent(event: gr.EventData, name: str) -> Any:
    """Give a part of what the browser sent with an event, which may be anything."""
    sent = event._data
    return sent.get(name, "") if isinstance(sent, dict) else ""


def _whole(value: Any, low: int, high: int) -> int:
    """Make a whole number in a range of whatever a page sent."""
    number = value if isinstance(value, int | float) and value == value else low
    return int(min(max(number, low), high))
