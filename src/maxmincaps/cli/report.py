"""`maxmincaps report`."""

from pathlib import Path

from maxmincaps.cli.terminal import console
from maxmincaps.report.build import build


def report(runs: Path = Path("runs"), out: Path = Path("report"), *, poll: Path | None = None) -> None:
    """Build one page from the runs of a folder: the claims of the paper with verdicts, all figures and tables.

    Parameters
    ----------
    runs: Path
        Folder with run folders, at any depth.
    out: Path
        Folder for the page and the files of every figure and table.
    poll: Path | None
        The file of a poll, for table 3 and figure 10.
    """
    page = build(runs, out, poll=poll)
    console.print_line(f"report: {page}")
