"""The explorer's page: one image, routed by two networks or with two normalizations side by side."""

import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal

import gradio as gr
from fastapi import FastAPI
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from maxmincaps.app import asset, uploads
from maxmincaps.app.handlers import Handlers, View
from maxmincaps.app.routed import AS_TRAINED, NORMALIZATION_CHOICES, load_models
from maxmincaps.training.predict import size_before_crop
from maxmincaps.training.run import Run

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "base-uri 'self'; form-action 'self'"
)
"""Gradio compiles parts of its page in the browser and needs `unsafe-eval`. Everything is loaded from this server."""
NEEDED_ROUTES = re.compile(
    r"(GET|HEAD) /(config|theme\.css|favicon\.ico|manifest\.json|(assets|static)/.*|gradio_api/heartbeat/\w+)?"
    r"|POST /gradio_api/run/predict"
)
"""Everything that the page in the browser asks for. Pictures come inside events: no file is taken or given."""
FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
"""Of the system, so that nothing is loaded from elsewhere."""
THEME = {
    "ground": "body_background_fill background_fill_secondary",
    "ink": "body_text_color button_secondary_text_color",
    "faint": "body_text_color_subdued block_label_text_color block_title_text_color",
    "paper": "background_fill_primary block_background_fill input_background_fill button_secondary_background_fill",
    "line": "block_border_color border_color_primary button_secondary_border_color",
    "accent": "border_color_accent slider_color",
}
"""The colours of `palette.css`, which are light or dark by themselves, and the parts of Gradio's theme in them."""
MOST_BYTES = 2 * uploads.MOST_BYTES
"""Of one request: a picture in base64 and the values of the page."""
MOST_VISITORS = 200
"""Visitors whose views are kept, about 2 MB each; the oldest are dropped first."""
INTRODUCTION = """<h1>Inside a capsule network</h1><p>{invitation}, upload a picture or take a test image. Each
lower-level capsule (child) predicts every class, and routing decides in a few iterations how much each prediction
counts. A class capsule's length (0 to 1) is trained towards 1 if the class is present, else towards 0; lengths need not
sum to 1.</p>"""
QUICK: Any = {"show_progress": "hidden", "trigger_mode": "always_last", "api_visibility": "private", "queue": False}
"""Without Gradio's queue an answer is one request, not a request and a stream, and nothing of it is kept."""


def explorer_page(folders: Sequence[Path], weights: Literal["best", "last"] = "best") -> FastAPI:
    """Build the ASGI application that shows trained runs, given their folders and which weights to use."""
    handlers = Handlers(
        load_models(folders, weights), uploads.Samples.of(folders[0]), size_before_crop(Run(folders[0]))
    )
    app = FastAPI(openapi_url=None)
    app.add_middleware(OnlyNeededRoutes)
    blocks = _Page(handlers).blocks()
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
        theme=_theme(),
        css=asset("palette.css") + asset("explorer.css"),
    )


def _theme() -> gr.themes.Base:
    colours = {
        f"{part}{dark}": f"var(--{colour})"
        for colour, parts in THEME.items()
        for part in parts.split()
        for dark in ("", "_dark")
    }
    base = gr.themes.Base(font=FONTS, font_mono=["ui-monospace", "monospace"], radius_size="sm", spacing_size="sm")
    return base.set(color_accent="var(--accent)", **colours)


def _slider(name: str, low: int, high: int, value: int, *, step: float = 1, **settings: Any) -> gr.Slider:
    return gr.Slider(low, high, value, step=step, elem_id=name, buttons=[], **settings)


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
    """The page's components, their layout, and which handler each event calls."""

    def __init__(self, handlers: Handlers) -> None:
        self.handlers = handlers
        self.digits = all(re.fullmatch("[0-9]", name) for name in handlers.first.classes)

    def blocks(self) -> gr.Blocks:
        """Build the page."""
        subject = "digit" if self.digits else "image"
        with gr.Blocks(title="Inside a capsule network", analytics_enabled=False) as page:
            self.view = gr.State(None, time_to_live=3600)
            invitation = f"Draw a{'n' * (not self.digits)} {subject}"
            if self.handlers.first.recipe.overlap:
                invitation = f"Draw two {subject}s over each other"
            gr.HTML(INTRODUCTION.format(invitation=invitation), elem_classes="quiet")
            self._networks()
            with gr.Row():
                with gr.Column(scale=1, min_width=280):
                    self._sources()
                with gr.Column(scale=3, min_width=320):
                    self.answers = self._pair("answer")
                    self.histograms = self._pair("histograms")
            self._heading(
                "Which children support which class",
                "A child's contribution to a class is how far its prediction vector (vote), times its routing "
                "coefficient (coupling), moves the class's sum in the direction of the class capsule.",
            )
            self.support = self._pair("support")
            self._heading("One child", "Its logits and routing coefficients for every class, by its type and position.")
            self._child_controls()
            self.children = self._pair("child")
            self._heading(
                "The capsule of the predicted class",
                f"Its values encode the appearance of the {subject}. Move them to see what the decoder draws.",
            )
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
        samples = self.handlers.samples
        count, has_wrong = (len(samples.images), bool(samples.wrong)) if samples else (0, False)
        first = "draw" if self.digits else "test" if count else "upload"
        with gr.Tabs(selected=first):
            with gr.Tab("Draw", id="draw"):
                self.pad = gr.HTML(asset("pad.html"), elem_id="pad", elem_classes="pad", js_on_load=asset("sketch.js"))
            with gr.Tab("Upload", id="upload"):
                upload = asset("upload.html").format(most_bytes=uploads.MOST_BYTES)
                self.file = gr.HTML(upload, elem_id="file", elem_classes="file", js_on_load=asset("upload.js"))
            with gr.Tab("Test set", id="test"):
                self.number = gr.Number(
                    0, label=f"Image, 0 to {max(0, count - 1)}", precision=0, interactive=count > 0, elem_id="number"
                )
                self.random = gr.Button("Random image", size="sm", interactive=count > 0, elem_id="random")
                self.mistake = gr.Button(
                    "Image that the first run gets wrong", size="sm", interactive=has_wrong, elem_id="mistake"
                )
                if not count:
                    gr.HTML("<p>The test set is not on this machine; `maxmincaps data get` downloads it.</p>")
        self.note = gr.HTML("", elem_id="note", elem_classes="quiet")

    def _networks(self) -> None:
        names, first = list(self.handlers.models), self.handlers.first
        other = "softmax" if first.recipe.normalization != "softmax" else "max-min"
        right = (names[1], AS_TRAINED) if len(names) > 1 else (names[0], other)
        self.networks: list[gr.Dropdown] = []
        with gr.Row():
            for side, (run, normalization) in {"left": (names[0], AS_TRAINED), "right": right}.items():
                for part, label, choices, value in (
                    ("run", "network", names, run),
                    ("normalization", "normalization", NORMALIZATION_CHOICES, normalization),
                ):
                    words = f"{side.capitalize()}: {label}"
                    chooser = gr.Dropdown(choices, value=value, label=words, min_width=120, elem_id=f"{side}-{part}")
                    self.networks.append(chooser)
        with gr.Row(elem_classes="stays"):
            most, trained = self.handlers.iterations, first.recipe.iterations
            self.iteration = _slider("iteration", 1, most, trained, label="Routing iteration")
            self.parent = gr.Dropdown(first.classes, value=first.classes[0], label="Class in front", elem_id="class")

    def _child_controls(self) -> None:
        grids = [model.network.grid for model in self.handlers.models.values()]
        with gr.Row():
            self.child = [
                _slider(name, 0, max(1, size - 1), 0, label=name.capitalize(), min_width=150)
                for name, size in zip(("type", "row", "column"), map(max, zip(*grids, strict=True)), strict=True)
            ]

    def _capsule_controls(self) -> None:
        with gr.Row():
            self.side = gr.Radio(["left", "right"], value="left", label="Network", elem_id="side")
            self.reset = gr.Button("Back to the routed values", elem_id="reset", size="sm", min_width=120)
        with gr.Row():
            with gr.Column(scale=1, min_width=300):
                self.capsule = gr.HTML(elem_id="capsule", elem_classes="side", js_on_load=None)
            with gr.Column(scale=2, min_width=320), gr.Group(elem_classes="numbers"):
                self.pose = [
                    _slider(f"number-{number}", -1, 1, 0, step=0.01, label=str(number))
                    for number in range(1, self.handlers.pose_size + 1)
                ]
        with gr.Accordion("Each value moved by −0.25 … 0.25", open=False):
            self.sheet = gr.HTML(elem_id="sheet", elem_classes="side", js_on_load=None)

    def _events(self, page: gr.Blocks) -> None:
        call, numbers = self.handlers, [*self.pose, self.capsule]
        of_class = [*self.histograms, *self.support]
        routed = [*self.answers, *of_class, *self.children, *numbers]
        everything = [
            *(self.view, self.note, *self.answers, *of_class, self.parent, *self.child, *self.children, *numbers)
        ]
        networks = [*self.networks, self.iteration, self.side]
        shown = [self.view, self.iteration, self.parent, *self.child, self.side]
        capsule = [self.view, self.iteration, self.side, *self.pose]

        def on(event: Callable, handler: Callable, inputs: Any, outputs: Any) -> Any:
            return event(handler, inputs, outputs, **QUICK)

        def change(event: Callable, handler: Callable, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
            """Call a handler of a view, or change nothing as long as there is no view."""

            @wraps(handler)
            def handle(view: View | None, *values: Any) -> Any:
                if view is None:
                    return [gr.skip()] * len(outputs) if len(outputs) > 1 else gr.skip()
                return handler(view, *values)

            return on(event, handle, inputs, outputs)

        number = [self.number, *networks]
        redrawn = [
            on(self.pad.submit, call.draw, networks, everything),
            on(self.file.submit, call.upload, networks, everything),
            *(
                on(event, call.sample, number, everything)
                for event in (self.number.submit, self.number.blur, page.load)
            ),
            *(
                on(on(button.click, choose, self.number, self.number).then, call.sample, number, everything)
                for button, choose in ((self.random, call.random_image), (self.mistake, call.misclassified_image))
            ),
            change(self.iteration.input, call.change_iteration, shown, routed),
            *(change(one.input, call.reroute, [self.view, *networks], everything) for one in self.networks),
            *(change(event, call.reset_pose, capsule[:3], numbers) for event in (self.side.input, self.reset.click)),
            *(change(slider.input, call.decode_pose, capsule, [self.capsule]) for slider in self.pose),
        ]
        change(self.parent.input, call.change_class, shown[:3], of_class)
        for slider in self.child:
            change(slider.input, call.change_child, [self.view, self.iteration, *self.child], self.children)
        # The sheet has 176 pictures. It follows in a request of its own, so that no answer waits for it.
        for event in redrawn:
            change(event.then, call.decode_perturbations, capsule, [self.sheet])
