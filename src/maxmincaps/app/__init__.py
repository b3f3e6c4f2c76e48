"""Pages: look inside a capsule network, and put its errors to people. They need the optional part `app`."""

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "0"  # before any page imports Gradio, as it looks once
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
