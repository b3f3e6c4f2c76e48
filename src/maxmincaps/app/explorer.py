"""The explorer's page: draw a digit and watch it being routed, by two networks or two normalizations side by side."""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "0"  # before Gradio is imported, as it looks once
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio as gr
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from maxmincaps.app import answers, panels, pictures
from maxmincaps.app.answers import AS_TRAINED, Look, Model, Picture
from maxmincaps.app.poll import asset
from maxmincaps.app.samples import Samples
from maxmincaps.app.theme import theme
from maxmincaps.errors import InputError
from maxmincaps.training.predict import central, size_before_crop
from maxmincaps.training.record import Record

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "base-uri 'self'; form-action 'self'"
)
"""Gradio compiles parts of its page in the browser, hence `unsafe-eval`; nothing may come from anywhere else."""
MOST_BYTES = 2 * pictures.MOST_BYTES
"""Of one request: a picture in base64, and what is around it."""
MOST_VISITORS = 200
"""Whose views are kept, some 2 MB each; those of the longest idle are given up first."""
INTRODUCTION = """<h1>Inside a capsule network</h1><p>Draw a digit, upload a picture or take one from the test set.
Every part of PrimaryCaps votes for every class; routing decides, in a few iterations, whose votes count.</p>"""
PAD = """<canvas width="280" height="280" role="img" aria-label="Sketch pad: draw with a mouse, a pen or a finger.
With a keyboard, take an image from the test set instead."></canvas><button type="button">Clear</button>"""
UPLOAD = f"""<label>A picture: PNG, JPEG, GIF, WebP, BMP, TIFF
<input type="file" accept="image/*" data-most="{pictures.MOST_BYTES}"></label>
<label><input type="checkbox"> dark on light: swap, as the networks know light on dark</label>
<p role="alert"></p>"""


@dataclass(frozen=True, eq=False)
class View:
    """What one visitor is looking at."""

    image: Picture
    note: str
    looks: tuple[Look, Look]


def explorer_page(folders: Sequence[Path]) -> FastAPI:
    """Make the app that shows trained runs."""
    page = _Explorer(answers.models_of(folders), Samples.of(folders[0]), size_before_crop(Record(folders[0])))
    app = FastAPI(openapi_url=None)
    for path in ("/gradio_api/upload", "/gradio_api/file={path:path}"):
        # Pictures come inside questions and leave inside pages: no file is taken or given.
        app.add_route(path, _no_files, methods=["GET", "HEAD", "POST"])
    blocks = page.blocks()
    blocks.state_session_capacity = MOST_VISITORS
    return gr.mount_gradio_app(
        app,
        blocks,
        path="",
        footer_links=[],
        run_history=False,
        show_error=False,
        ssr_mode=False,
        mcp_server=False,
        enable_monitoring=False,
        max_file_size=1,
        theme=theme(),
        css=asset("palette.css") + asset("explorer.css"),
    )


def _no_files(_: Request) -> PlainTextResponse:
    return PlainTextResponse("This page takes and gives no files.", 404)


class _Explorer:
    """The page's parts, and what happens when one of them is moved."""

    def __init__(self, models: Sequence[Model], samples: Samples | None, size: tuple[int, int]) -> None:
        self.models = {model.name: model for model in models}
        self.first = models[0]
        self.samples = samples
        self.shape = (self.first.network.image_shape[0], *size)  # of a test image, before its window is cut
        self.iterations = max(model.shown_iterations for model in models)
        self.numbers = max(model.recipe.class_pose for model in models)
        self.turn = threading.Lock()  # torch uses all cores for one image: many visitors take turns

    def blocks(self) -> gr.Blocks:
        """Lay the page out."""
        with gr.Blocks(title="Inside a capsule network", analytics_enabled=False) as page:
            self.view = gr.State(None, time_to_live=3600)
            gr.HTML(INTRODUCTION, elem_classes="quiet")
            self._networks()
            with gr.Row():
                with gr.Column(scale=1, min_width=290):
                    self._sources()
                with gr.Column(scale=3, min_width=320):
                    self.answers = self._pair("answer")
            self._heading("Routing at work", "All logits and couplings in a pale colour, those of one class in front.")
            self.routing = self._pair("routing")
            self._heading(
                "Who voted for what",
                "A push is how far a child's vote, times its coupling, moves the class's sum in the class's direction.",
            )
            self.voters = self._pair("voters")
            self._heading("One child", "A capsule of PrimaryCaps, by its type and place, and its share in every class.")
            self._child_controls()
            self.children = self._pair("child")
            self._heading("The winning capsule", "Its numbers say how the digit is written. Move them.")
            self._capsule_controls()
            self._events(page)
        return page

    def _heading(self, title: str, words: str) -> None:
        gr.HTML(f"<h2>{title}</h2><p>{words}</p>", elem_classes="quiet")

    def _pair(self, name: str) -> list[gr.HTML]:
        with gr.Row(elem_classes="sides"):
            return [
                gr.HTML(elem_id=f"{name}-{side}", elem_classes="side", min_width=300, scale=1, js_on_load=None)
                for side in ("left", "right")
            ]

    def _sources(self) -> None:
        with gr.Tabs():
            with gr.Tab("Draw"):
                self.pad = gr.HTML(PAD, elem_id="pad", elem_classes="pad", js_on_load=asset("sketch.js"))
            with gr.Tab("Upload"):
                self.file = gr.HTML(UPLOAD, elem_id="file", elem_classes="file", js_on_load=asset("upload.js"))
            with gr.Tab("Test set"):
                count = len(self.samples.images) if self.samples else 0
                self.number = gr.Number(
                    0, label=f"Image, 0 to {max(0, count - 1)}", precision=0, interactive=count > 0, elem_id="number"
                )
                self.random = gr.Button("Another one", size="sm", interactive=count > 0, elem_id="random")
                wrong = bool(self.samples and self.samples.wrong)
                self.mistake = gr.Button(
                    "One that the first run gets wrong", size="sm", interactive=wrong, elem_id="mistake"
                )
                if not count:
                    gr.HTML("<p>The test set is not on this machine; `maxmincaps data get` fetches it.</p>")
        self.note = gr.HTML("", elem_id="note", elem_classes="quiet")

    def _networks(self) -> None:
        names = list(self.models)
        second = names[1] if len(names) > 1 else names[0]
        other = "softmax" if self.first.recipe.normalization != "softmax" else "max-min"
        with gr.Row():
            self.left = (
                gr.Dropdown(names, value=names[0], label="Left", min_width=120, elem_id="left-run"),
                gr.Dropdown(answers.choices(), value=AS_TRAINED, label="normalization", min_width=120),
            )
            self.right = (
                gr.Dropdown(names, value=second, label="Right", min_width=120, elem_id="right-run"),
                gr.Dropdown(
                    answers.choices(),
                    value=AS_TRAINED if len(names) > 1 else other,
                    label="normalization",
                    min_width=120,
                    elem_id="right-normalization",
                ),
            )
        with gr.Row(elem_classes="stays"):
            self.iteration = gr.Slider(
                1,
                self.iterations,
                self.first.recipe.iterations,
                step=1,
                label="Routing iteration",
                elem_id="iteration",
                buttons=[],
            )
            self.parent = gr.Dropdown(
                list(self.first.classes), value=self.first.classes[0], label="Class to look at", elem_id="class"
            )

    def _child_controls(self) -> None:
        sizes = [max(sizes) for sizes in zip(*(model.network.grid for model in self.models.values()), strict=True)]
        with gr.Row():
            self.place = [
                gr.Slider(
                    0, max(1, size - 1), 0, step=1, label=name.capitalize(), elem_id=name, buttons=[], min_width=150
                )
                for name, size in zip(("type", "row", "column"), sizes, strict=True)
            ]

    def _capsule_controls(self) -> None:
        with gr.Row():
            self.whose = gr.Radio(["left", "right"], value="left", label="Whose capsule", elem_id="whose")
            self.reset = gr.Button("Back to as routed", elem_id="reset", size="sm", min_width=120)
        with gr.Row():
            with gr.Column(scale=1, min_width=300):
                self.capsule = gr.HTML(elem_id="capsule", elem_classes="side", js_on_load=None)
            with gr.Column(scale=2, min_width=320), gr.Group(elem_classes="numbers"):
                self.pose = [
                    gr.Slider(-1, 1, 0, step=0.01, label=f"{number + 1}", elem_id=f"number-{number + 1}", buttons=[])
                    for number in range(self.numbers)
                ]
        with gr.Accordion("Each number moved by −0.25 … 0.25", open=False):
            self.sheet = gr.HTML(elem_id="sheet", elem_classes="side", js_on_load=None)

    def _events(self, page: gr.Blocks) -> None:
        everything = [
            *(self.view, self.note, *self.answers, *self.routing, *self.voters, self.parent, *self.place),
            *(*self.children, *self.pose, self.capsule),
        ]
        networks = [*self.left, *self.right, self.iteration, self.whose]
        # Without Gradio's queue an answer is one request, not a request and a stream, and nothing is kept of it.
        quick: dict[str, Any] = {
            "show_progress": "hidden",
            "trigger_mode": "always_last",
            "api_visibility": "private",
            "queue": False,
        }

        number, again = [self.number, *networks], [self.view, *networks]
        asked = [self.view, self.iteration, self.parent, *self.place, self.whose]
        capsule = [self.view, self.iteration, self.whose, *self.pose]
        numbers = [*self.pose, self.capsule]
        shown = [*self.answers, *self.routing, *self.voters, *self.children, *numbers]
        redrawn = [
            self.pad.submit(self.draw, networks, everything, **quick),
            self.file.submit(self.upload, networks, everything, **quick),
            self.iteration.input(self.at_iteration, asked, shown, **quick),
            *(on(self.sample, number, everything, **quick) for on in (self.number.submit, self.number.blur, page.load)),
            *(
                button.click(choose, self.number, self.number, **quick).then(self.sample, number, everything, **quick)
                for button, choose in ((self.random, self.any_number), (self.mistake, self.wrong_number))
            ),
            *(chooser.input(self.again, again, everything, **quick) for chooser in (*self.left, *self.right)),
            *(on(self.as_routed, capsule[:3], numbers, **quick) for on in (self.whose.input, self.reset.click)),
            *(slider.input(self.moved, capsule, self.capsule, **quick) for slider in self.pose),
        ]
        self.parent.input(self.of_class, asked[:3], [*self.routing, *self.voters], **quick)
        for slider in self.place:
            slider.input(self.of_child, [self.view, self.iteration, *self.place], self.children, **quick)
        # The sheet has 176 pictures: it follows in a question of its own, so that no answer waits for it.
        for event in redrawn:
            event.then(self.all_moved, capsule, self.sheet, **quick)

    # Pictures come in

    def draw(self, event: gr.EventData, *networks: Any) -> list[Any]:
        """Take a drawing."""
        return self._taken(lambda shape: pictures.drawn(_sent(event, "picture"), shape), networks)

    def upload(self, event: gr.EventData, *networks: Any) -> list[Any]:
        """Take an upload."""
        swap = _sent(event, "swap") is True
        return self._taken(lambda shape: pictures.uploaded(_sent(event, "picture"), shape, swap), networks)

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
        self, take: Callable[[tuple[int, int, int]], pictures.Taken | None], networks: Sequence[Any]
    ) -> list[Any]:
        try:
            taken = take(self.shape)
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
        rest = len(self.answers + self.routing + self.voters + self.children) + 4 + len(self.pose) + 1
        return [gr.skip(), said, *[gr.skip()] * rest]

    # Pictures are routed and shown

    def again(self, view: View | None, *networks: Any) -> list[Any]:
        """Route the same image through what is chosen now."""
        return self._routed(view.image, view.note, networks) if view else self._nothing("")

    def _routed(self, image: Picture, note: str, networks: Sequence[Any]) -> list[Any]:
        left_run, left_name, right_run, right_name, iteration, whose = networks
        left, right = (self.models[left_run], left_name), (self.models[right_run], right_name)
        with self.turn:
            view = View(image, note, answers.side_by_side(image, left, right, self.iterations))
        step = _whole(iteration, 1, self.iterations) - 1
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
            return [gr.skip()] * (8 + len(self.pose) + 1)
        step = _whole(iteration, 1, self.iterations) - 1
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
        step, number = _whole(iteration, 1, self.iterations) - 1, self.first.classes.index(parent)
        return [
            *(panels.routing(look, step, number) for look in view.looks),
            *(panels.voters(look, step, number) for look in view.looks),
        ]

    def of_child(self, view: View | None, iteration: Any, *place: Any) -> list[Any]:
        """Show one child."""
        if view is None:
            return [gr.skip()] * 2
        step = _whole(iteration, 1, self.iterations) - 1
        where = [_whole(part, 0, 1 << 20) for part in place]
        return [panels.one_child(look, step, answers.number_of(look.model, *where)) for look in view.looks]

    # The winning capsule

    def as_routed(self, view: View | None, iteration: Any, whose: str) -> list[Any]:
        """Set the sliders to the numbers of the winning capsule."""
        if view is None:
            return [gr.skip()] * (len(self.pose) + 1)
        look, step = view.looks[whose == "right"], _whole(iteration, 1, self.iterations) - 1
        pose = look.poses[step, look.winner(step)].tolist()
        shown = [gr.update(value=round(value, 2), visible=True) for value in pose]
        unused = [gr.update(value=0, visible=False)] * (len(self.pose) - len(pose))
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
        look, step = view.looks[whose == "right"], _whole(iteration, 1, self.iterations) - 1
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
