"""The environment of a run: versions, processor, threads, commit. No names of people or machines."""

import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from maxmincaps.training.schema import Environment


def environment(device: torch.device, precision: str = "fp32") -> Environment:
    """Return the description of this machine and software."""
    return Environment(
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        maxmincaps=version("maxmincaps"),
        commit=_commit(),
        torch=torch.__version__,
        python=platform.python_version(),
        system=platform.system(),
        processor=_processor(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        precision=precision if precision == "bf16" or not _convolves_in_tf32(device) else "fp32, convolutions tf32",
        threads=torch.get_num_threads(),
    )


def _convolves_in_tf32(device: torch.device) -> bool:
    """Return whether cuDNN rounds the factors of single-precision products, its default from Ampere on."""
    return (
        device.type == "cuda" and torch.backends.cudnn.allow_tf32 and torch.cuda.get_device_capability(device) >= (8,)
    )


def peak_memory_mb(device: torch.device) -> float:
    """Return the peak memory of this process in MiB (on a CUDA device: of the device)."""
    if device.type == "cuda":
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
