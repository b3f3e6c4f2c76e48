"""Pages: an explorer of capsule networks, and a poll about their errors. They need the optional part `app`."""

import os
from importlib.resources import files

os.environ["GRADIO_ANALYTICS_ENABLED"] = "0"  # Gradio reads it once, when it is imported
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def asset(name: str) -> str:
    """Read a text file that ships with the pages."""
    return (files("maxmincaps.app") / "assets" / name).read_text(encoding="utf-8")
