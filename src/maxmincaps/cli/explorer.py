"""`maxmincaps app`: serve the explorer."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from maxmincaps.cli.predict import Weights
from maxmincaps.cli.terminal import console

Host = Annotated[
    str, Parameter(help="Address to listen on. Any but this machine's own (127.0.0.1) requires a token from visitors.")
]
Port = Annotated[int, Parameter(help="Port to listen on; 0 for any free one.")]


def app(
    *runs: Annotated[
        Path, Parameter(help="Folders of trained runs. Default: the digit network that comes with the package.")
    ],
    weights: Weights = "best",
    host: Host = "127.0.0.1",
    port: Port = 7860,
) -> None:
    """Serve the explorer until Ctrl-C: draw or upload an image, and see how two runs or two normalizations route it."""
    from maxmincaps.app.runs import find_runs
    from maxmincaps.errors import import_extra
    from maxmincaps.training.run import SHIPPED_RUN

    folders = find_runs(runs or [SHIPPED_RUN], needs=f"{weights}.safetensors")
    import_extra("app", "gradio")
    from maxmincaps.app.serve import Listener

    listener = Listener.open(host, port)
    shown = ", ".join(map(str, folders)) if runs else "the digit network that comes with the package"
    console.print_line(f"showing {shown} ({weights} weights)")
    from maxmincaps.app.explorer import MOST_BYTES, POLICY, explorer_page

    page = explorer_page(folders, weights)
    console.print_line(f"open {listener.address} in a browser; Ctrl-C stops")
    listener.serve(page, policy=POLICY, most_bytes=MOST_BYTES)
