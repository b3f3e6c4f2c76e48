"""The explorer's page: draw a digit and watch it being routed, by two networks or two normalizations side by side."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from maxmincaps.app import answers, uploads
from maxmincaps.app.answers import AS_TRAINED
from maxmincaps.app.poll import asset
from maxmincaps.app.reactions import Reactions
from maxmincaps.app.samples import Samples
from maxmincaps.app.theme import theme
from maxmincaps.training.predict import size_before_crop
from maxmincaps.training.run import Run

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "base-uri 'self'; form-action 'self'"
)
"""Gradio compiles parts of its page in the browser, hence `unsafe-eval`; nothing may come from anywhere else."""
NEEDED_ROUTES = re.compile(
    r"(GET|HEAD) /(config|theme\.css|favicon\.ico|manifest\.json|(assets|static)/.*|gradio_api/heartbeat/\w+)?"
    r"|POST /gradio_api/run/predict"
)
"""Everything that the page in the browser asks for. Pictures come inside events: no file is taken or given."""
MOST_BYTES = 2 * uploads.MOST_BYTES
"""Of one request: a picture in base64, and what is around it."""
MOST_VISITORS = 200
"""Whose views are kept, some 2 MB each; those of the longest idle are given up first."""
INTRODUCTION = """<h1>Inside a capsule network</h1><p>Draw a digit, upload a picture or take one from the test set.
Every part of PrimaryCaps votes for every class; routing decides, in a few iterations, whose votes count.</p>"""
PAD = """<div class="board">
<canvas width="280" height="280" role="img" aria-label="Sketch pad: draw with a mouse, a pen or a finger.
With a keyboard, take an image from the test set instead."></canvas><span aria-hidden="true">draw here</span></div>
<button type="button">Clear</button>"""
UPLOAD = f"""<label>A picture: PNG, JPEG, GIF, WebP, BMP, TIFF
<input type="file" accept="image/*" data-most="{uploads.MOST_BYTES}"></label>
<label><input type="checkbox"> dark on light: swap, as the networks know light on dark</label>
<p role="alert"></p>"""


def explorer_page(folders: Sequence[Path]) -> FastAPI:
    """Make the app that shows trained runs."""
    reactions = Reactions(answers.models_of(folders), Samples.of(folders[0]), size_before_crop(Run(folders[0])))
    app = FastAPI(openapi_url=None)
    app.add_middleware(OnlyNeededRoutes)
    blocks = _Page(reactions).blocks()
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


class OnlyNeededRoutes:
    """ASGI middleware that hides the routes of Gradio that the page does not use, such as its queue and its files."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 404, or pass the request on."""
        if scope["type"] == "http" and not NEEDED_ROUTES.fullmatch(f"{scope['method']} {scope['path']}"):
            return await PlainTextResponse("There is nothing here.", 404)(scope, receive, send)
        return await self._app(scope, receive, send)


class _Page:
    """The page's parts, where they stand, and what is asked when one of them is moved."""

    def __init__(self, reactions: Reactions) -> None:
        self.reactions = reactions

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
        samples = self.reactions.samples
        with gr.Tabs():
            with gr.Tab("Draw"):
                self.pad = gr.HTML(PAD, elem_id="pad", elem_classes="pad", js_on_load=asset("sketch.js"))
            with gr.Tab("Upload"):
                self.file = gr.HTML(UPLOAD, elem_id="file", elem_classes="file", js_on_load=asset("upload.js"))
            with gr.Tab("Test set"):
                count = len(samples.images) if samples else 0
                self.number = gr.Number(
                    0, label=f"Image, 0 to {max(0, count - 1)}", precision=0, interactive=count > 0, elem_id="number"
                )
                self.random = gr.Button("Another one", size="sm", interactive=count > 0, elem_id="random")
                wrong = bool(samples and samples.wrong)
                self.mistake = gr.Button(
                    "One that the first run gets wrong", size="sm", interactive=wrong, elem_id="mistake"
                )
                if not count:
                    gr.HTML("<p>The test set is not on this machine; `maxmincaps data get` fetches it.</p>")
        self.note = gr.HTML("", elem_id="note", elem_classes="quiet")

    def _networks(self) -> None:
        names, first = list(self.reactions.models), self.reactions.first
        second = names[1] if len(names) > 1 else names[0]
        other = "softmax" if first.recipe.normalization != "softmax" else "max-min"
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
                self.reactions.iterations,
                first.recipe.iterations,
                step=1,
                label="Routing iteration",
                elem_id="iteration",
                buttons=[],
            )
            self.parent = gr.Dropdown(
                list(first.classes), value=first.classes[0], label="Class to look at", elem_id="class"
            )

    def _child_controls(self) -> None:
        grids = [model.network.grid for model in self.reactions.models.values()]
        with gr.Row():
            self.place = [
                gr.Slider(
                    0, max(1, size - 1), 0, step=1, label=name.capitalize(), elem_id=name, buttons=[], min_width=150
                )
                for name, size in zip(("type", "row", "column"), map(max, zip(*grids, strict=True)), strict=True)
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
                    for number in range(self.reactions.numbers)
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

        does, number, again = self.reactions, [self.number, *networks], [self.view, *networks]
        asked = [self.view, self.iteration, self.parent, *self.place, self.whose]
        capsule = [self.view, self.iteration, self.whose, *self.pose]
        numbers = [*self.pose, self.capsule]
        shown = [*self.answers, *self.routing, *self.voters, *self.children, *numbers]
        redrawn = [
            self.pad.submit(does.draw, networks, everything, **quick),
            self.file.submit(does.upload, networks, everything, **quick),
            self.iteration.input(does.at_iteration, asked, shown, **quick),
            *(on(does.sample, number, everything, **quick) for on in (self.number.submit, self.number.blur, page.load)),
            *(
                button.click(choose, self.number, self.number, **quick).then(does.sample, number, everything, **quick)
                for button, choose in ((self.random, does.any_number), (self.mistake, does.wrong_number))
            ),
            *(chooser.input(does.again, again, everything, **quick) for chooser in (*self.left, *self.right)),
            *(on(does.as_routed, capsule[:3], numbers, **quick) for on in (self.whose.input, self.reset.click)),
            *(slider.input(does.moved, capsule, self.capsule, **quick) for slider in self.pose),
        ]
        self.parent.input(does.of_class, asked[:3], [*self.routing, *self.voters], **quick)
        for slider in self.place:
            slider.input(does.of_child, [self.view, self.iteration, *self.place], self.children, **quick)
        # The sheet has 176 pictures: it follows in a question of its own, so that no answer waits for it.
        for event in redrawn:
            event.then(does.all_moved, capsule, self.sheet, **quick)
