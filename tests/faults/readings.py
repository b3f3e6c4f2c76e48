"""Read untrusted files by functions or commands, and report whatever must not happen."""

import io
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from maxmincaps.cli import main
from maxmincaps.errors import DivergedError, InputError

MOST_GROWTH_MB = 600
"""Bound on the memory that reading all inputs of one kind may add to the process."""

MOST_LETTERS = 4000
"""Bound on the length of an error message: it may list what was expected, but not repeat the input."""

FORBIDDEN = {"pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"}
WRITES = {"w", "a", "x", "+"}
_watched: list["Readings"] = []


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    if event == "subprocess.Popen" and arguments[0] == "git":
        return  # a run asks for the commit of its own source
    if event in FORBIDDEN or (event == "open" and _is_write_elsewhere(*arguments[:2], _watched[-1].folder)):
        _watched[-1].trespasses.append(f"{event} {arguments[:2]}")


def _is_write_elsewhere(path: Any, mode: Any, folder: Path) -> bool:
    writes = isinstance(mode, str) and WRITES & set(mode)
    return bool(writes) and isinstance(path, str) and not path.startswith((str(folder), "/dev/", "/proc/"))


sys.addaudithook(_on_event)  # Audit hooks cannot be removed; this one does nothing outside `Readings.read`.


class Readings:
    """Checks that each file is accepted, or refused in one line that names it, without side effects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.canary = folder / "canary"
        self.tried = self.refused = 0
        self.slowest_cpu_s, self.slowest = 0.0, ""
        self.before_mb = fresh_peak_mb()
        self.trespasses: list[str] = []
        self.wrong: list[str] = []

    def read(self, reader: Callable[[], Any], named: str, what: str) -> None:
        """Call a reader. An error message must contain `named`; `what` describes the input in reports."""
        self.tried += 1
        began = time.process_time()
        try:
            with self._watching():
                reader()
        except (InputError, DivergedError) as error:
            self.refused += 1
            message = str(error)
            if named not in message or "\n" in message or len(message) > MOST_LETTERS:
                self.wrong.append(f"{what}: refused without its name or in several lines: {message[:300]!r}")
        except Exception as error:  # any other error is a failure
            self.wrong.append(f"{what}: {_place(error)} {type(error).__name__}: {str(error)[:200]}")
        spent = time.process_time() - began
        if spent > self.slowest_cpu_s:
            self.slowest_cpu_s, self.slowest = spent, what

    @contextmanager
    def _watching(self) -> Iterator[None]:
        _watched.append(self)
        try:
            yield
        finally:
            _watched.pop()

    def conclude(self, tally: Callable[..., None], what: str) -> None:
        """Fail if anything happened that must not; otherwise state the figures."""
        grown_mb = peak_mb() - self.before_mb
        assert self.wrong == [], f"{len(self.wrong)} of {self.tried}\n" + "\n".join(_distinct(self.wrong))
        assert self.trespasses == [], self.trespasses[:5]
        assert not self.canary.exists()
        assert grown_mb < MOST_GROWTH_MB, self.slowest
        assert 0 < self.refused < self.tried
        tally(
            what,
            tried=self.tried,
            refused_in_one_line=self.refused,
            other_errors=0,
            codes_run=0,
            MB_grown_at_most=round(grown_mb),
            s_of_CPU_at_most=round(self.slowest_cpu_s, 2),
        )


def _distinct(wrong: list[str]) -> list[str]:
    """Return one example of each place and kind of error."""
    found: dict[str, str] = {}
    for one in wrong:
        found.setdefault(one.partition(": ")[2][:90], one)
    return list(found.values())[:40]


def _place(error: BaseException) -> str:
    """Return the last line of our own code in a traceback."""
    place, trace = "", error.__traceback__
    while trace:
        name = trace.tb_frame.f_code.co_filename
        if "maxmincaps" in name and "tests" not in name:
            place = f"{name.rpartition('maxmincaps/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def run_command(*words: object) -> None:
    """Run a command. Exit code 2 raises `InputError` with its message, any other code but 0 `RuntimeError`."""
    printed = io.StringIO()
    with redirect_stderr(printed), redirect_stdout(printed):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            if end.code == 2:
                raise InputError(" ".join(printed.getvalue().split())) from None
            if end.code:
                raise RuntimeError(f"ended with code {end.code}: {printed.getvalue()}") from None


def fresh_peak_mb() -> float:
    """Reset the peak memory of this process where the system can, and return it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
