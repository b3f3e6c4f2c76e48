"""Pages: an explorer of capsule networks, and a poll about their errors. They need the optional part `app`."""

import io
import os
from importlib.resources import files

import numpy as np
from PIL import Image

os.environ["GRADIO_ANALYTICS_ENABLED"] = "0"  # Gradio reads it once, when it is imported
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def asset(name: str) -> str:
    """Read a text file that ships with the pages."""
    return (files("maxmincaps.app") / "assets" / name).read_text(encoding="utf-8")


def encode_png(pixels: np.ndarray) -> bytes:
    """Encode an image (channel, height, width) as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(buffer, "PNG")
    return buffer.getvalue()
