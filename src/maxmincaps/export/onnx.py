"""A trained network as an ONNX file, which runs without torch and without this package."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from maxmincaps.errors import import_extra
from maxmincaps.export.program import Answers, program_of


def write_onnx(answers: Answers, path: Path, notes: dict[str, str]) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """Write one ONNX file with the notes as its metadata; give what the file answers in onnxruntime."""
    for module in ("onnx", "onnxscript"):
        import_extra("export", module)
    runtime = import_extra("export", "onnxruntime")
    with _quiet():
        program = torch.onnx.export(
            program_of(answers), input_names=["images"], output_names=list(answers.outputs), verbose=False
        )
    assert program is not None
    program.model.metadata_props.update(notes)
    program.save(path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda images: tuple(torch.from_numpy(found) for found in session.run(None, {"images": images.numpy()}))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what the exporter says of itself: torchvision is not used here, and LeafSpec is its own affair."""
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
            yield
    finally:
        registration.setLevel(level)
