"""`maxmincaps app`: the explorer."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from maxmincaps.cli.terminal import console

Host = Annotated[str, Parameter(help="Where to listen. Elsewhere than on this machine, a token is asked for.")]
Port = Annotated[int, Parameter(help="Port to listen on; 0 for any.")]


def app(
    *runs: Annotated[
        Path, Parameter(help="Folders of trained runs. Default: the digit network that comes with the package.")
    ],
    host: Host = "127.0.0.1",
    port: Port = 7860,
) -> None:
    """Open the explorer: draw a digit, and watch it being routed by two runs or two normalizations, until Ctrl-C."""
    from maxmincaps.app.runs import trained_runs
    from maxmincaps.errors import import_extra
    from maxmincaps.training.run import SHIPPED_RUN

    folders = trained_runs(runs or [SHIPPED_RUN], needs="best.safetensors")
    import_extra("app", "gradio")
    from maxmincaps.app.serve import Door

    door = Door.open(host, port)
    shown = ", ".join(map(str, folders)) if runs else "the digit network that comes with the package"
    console.say(f"showing {shown}")
    from maxmincaps.app.explorer import MOST_BYTES, POLICY, explorer_page

    page = explorer_page(folders)
    console.say(f"open {door.address} in a browser; Ctrl-C stops")
    door.serve(page, policy=POLICY, most_bytes=MOST_BYTES)
