"""This machine: what a run stores of it (versions, processor, threads, commit; no names), and its memory.

torch is imported where it is used, because every command sets the allocator, `maxmincaps --help` too.
"""

import ctypes
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from maxmincaps.training.schema import Environment

if TYPE_CHECKING:
    import torch

# From glibc's malloc.h, with the largest value that mallopt takes.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LARGEST = 2**31 - 1


def keep_large_blocks() -> bool:
    """Make glibc's allocator keep freed blocks of any size for reuse, in the whole process from now on.

    glibc returns a large block to the kernel as soon as it is freed. The next training step gets it back as fresh
    pages, with one page fault for every 4 kB: a third of the time of a step.

    `fit`, the classifier and the commands call this; call it once before a training loop of your own. It does nothing
    on other systems (musl, macOS, Windows) or with MAXMINCAPS_KEEP_MEMORY=0 in the environment.

    Returns:
        Whether the allocator keeps freed blocks now.
    """
    if os.environ.get("MAXMINCAPS_KEEP_MEMORY") == "0" or os.name != "posix":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # Large blocks come from the heap instead of from mappings of their own, and the heap never shrinks.
    return all([library.mallopt(MMAP_THRESHOLD, LARGEST), library.mallopt(TRIM_THRESHOLD, LARGEST)])


def environment(device: "torch.device", precision: str = "fp32") -> Environment:
    """Return the description of this machine and software."""
    import torch

    from maxmincaps.capsules.compiled import load_kernels

    # From Ampere on, cuDNN rounds the factors of single-precision products by default.
    in_tf32 = (
        device.type == "cuda" and torch.backends.cudnn.allow_tf32 and torch.cuda.get_device_capability(device) >= (8,)
    )
    return Environment(
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        maxmincaps=version("maxmincaps"),
        commit=_commit(),
        torch=torch.__version__,
        python=platform.python_version(),
        system=platform.system(),
        processor=_processor(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        precision="fp32, convolutions tf32" if in_tf32 and precision == "fp32" else precision,
        threads=torch.get_num_threads(),
        numba=version("numba") if device.type == "cpu" and load_kernels() else None,
    )


def peak_memory_mb(device: "torch.device") -> float:
    """Return the peak memory of this process in MiB (on a CUDA device: of the device)."""
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device) / 2**20
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


@cache
def _commit() -> str | None:
    """Return the commit of the source if it is a checkout, with `+` if files were changed.

    Cached, because the process runs what it has imported even if the files change later.
    """
    source = Path(__file__).resolve().parents[1]

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=source, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", __file__)  # fails if the package is only installed inside another checkout
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", str(source)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
