"""Convert a trained network to an ONNX file, which runs without torch and without this package."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from maxmincaps.errors import import_extra
from maxmincaps.export.program import ExportedNetwork, Written, program_of


def to_onnx(answers: ExportedNetwork, notes: dict[str, str]) -> Written:
    """Return the bytes of an ONNX file whose metadata are `notes`, and a function that runs them in onnxruntime."""
    for module in ("onnx", "onnxscript"):
        import_extra("export", module)
    runtime = import_extra("export", "onnxruntime")
    with _quiet():
        program = torch.onnx.export(
            program_of(answers),
            input_names=["images"],
            output_names=list(answers.outputs),
            dynamic_shapes=({0: "batch"},),
            verbose=False,
        )
    assert program is not None
    program.model.metadata_props.update(notes)
    content = program.model_proto.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.from_numpy(found) for found in session.run(None, {"images": images.numpy()}))

    return Written(content, run)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the exporter's messages about a missing torchvision and about its own use of LeafSpec."""
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
            yield
    finally:
        registration.setLevel(level)
