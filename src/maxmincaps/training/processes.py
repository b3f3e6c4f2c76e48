"""Devices, processes and signals: a run uses one device, or several processes of this machine that share each batch.

The processes find each other through a file and talk over the loopback interface, so no other machine can reach them.
SIGINT and SIGTERM request a stop; the run stops after the current step.
"""

import os
import platform
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_bool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import ProcessException, start_processes
from torch.nn.parallel import DistributedDataParallel

from maxmincaps.errors import DivergedError, InputError, is_lack_of_memory, one_line
from maxmincaps.recipe import Recipe

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether a signal asked a run to stop. The processes of a run share the request."""

    def __init__(self) -> None:
        self.made = get_context("spawn").RawValue(c_bool, False)

    def __bool__(self) -> bool:
        return self.made.value

    def note(self, *_: object) -> None:
        """Handle a signal by storing the request."""
        self.made.value = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Handle signals in another process as soon as the request arrives there by pickling.

        Ctrl-C reaches all processes. If it ended one before its task began, the others would wait for that process.
        Only the process that started the others decides when to interrupt at once.
        """
        self.__dict__.update(state)
        for number in SIGNALS:
            signal.signal(number, self.note)


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Store the first SIGINT or SIGTERM as a request; a second one interrupts at once, as usual."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only a main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore_handlers() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(*_: object) -> None:
        request.note()
        restore_handlers()

    for number in SIGNALS:
        signal.signal(number, note)
    try:
        yield request
    finally:
        restore_handlers()


@dataclass(frozen=True)
class Processes:
    """The processes that share each batch, and the place of this process among them."""

    device: torch.device
    precision: str = "fp32"
    count: int = 1
    rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files."""
        return self.rank == 0

    def wrap(self, network: nn.Module) -> nn.Module:
        """Move a network to the device; return it with the recipe's precision and with shared gradients."""
        network.to(self.device)
        return _Autocast(network if self.count == 1 else DistributedDataParallel(network), self)

    def sum(self, *numbers: float) -> list[float]:
        """Return the sum of each number over all processes, in double precision."""
        if self.count == 1:
            return [float(number) for number in numbers]
        summed = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.all_reduce(summed)
        return summed.tolist()

    def concatenate(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all processes, which have the same shape, one after another."""
        if self.count == 1:
            return tensor
        parts = [torch.empty_like(tensor, device=self.device) for _ in range(self.count)]
        distributed.all_gather(parts, tensor.to(self.device))
        return torch.cat(parts).to(tensor.device)

    def wait(self) -> None:
        """Wait until all processes have reached this point."""
        if self.count > 1:
            distributed.barrier()


class _Autocast(nn.Module):
    """A network that runs under autocast in the recipe's precision."""

    def __init__(self, module: nn.Module, processes: Processes) -> None:
        super().__init__()
        self.module, self.processes = module, processes

    def forward(self, *arguments: Any) -> Any:
        enabled = self.processes.precision == "bf16"
        with torch.autocast(self.processes.device.type, torch.bfloat16, enabled=enabled):
            return self.module(*arguments)


ONE_PROCESS = Processes(torch.device("cpu"))  # this process, on the CPU, in single precision


def processes_for(recipe: Recipe) -> Processes:
    """Return the device, precision and processes that a recipe asks for.

    Raises:
        InputError: If the device or the number of processes is not available on this machine.
    """
    device, count = find_device(recipe.device), recipe.processes
    if count > 1 and device.index is not None:
        raise InputError(f"{count} processes take a device each: expected {device.type}, found {device}")
    if count > 1 and device.type != "cpu" and torch.accelerator.device_count() < count:
        found = torch.accelerator.device_count()
        raise InputError(
            f"{count} processes take a device each: found {found} of {device.type}; use fewer processes or --device cpu"
        )
    return Processes(device, precision_on(device, recipe), count)


def launch(processes: Processes, task: Callable[[Processes], None], request: StopRequest) -> None:
    """Run a task in every process and wait for all of them; raise the first error here.

    No process is left when this returns or raises.
    """
    if processes.count == 1:
        task(processes)
        return
    errors = get_context("spawn").SimpleQueue()
    with TemporaryDirectory(prefix="maxmincaps-") as private:
        arguments = (processes, task, Path(private) / "store", errors, torch.get_num_threads())
        started = start_processes(_run_task, arguments, processes.count, join=False, start_method="spawn")
        assert started is not None
        try:
            while not started.join():
                pass
        except ProcessException:
            if request:
                errors.put(KeyboardInterrupt())  # the signal ended them while they were starting
            if errors.empty():
                raise
        except KeyboardInterrupt:
            for process in started.processes:
                process.kill()
                process.join()
            raise
    if not errors.empty():
        raise errors.get()  # the first is the cause; the others fail because one process is missing


def _run_task(
    rank: int, all_of_them: Processes, task: Callable[[Processes], None], store: Path, errors: SimpleQueue, threads: int
) -> None:
    """Run the task in a spawned process and put its error into the queue, which keeps the error's type."""
    torch.set_num_threads(threads)  # as in the process that started this one; the task divides them
    with _process_group(rank, all_of_them, store) as processes:
        try:
            task(processes)
        except InputError as error:
            errors.put(error)
            raise SystemExit(1) from None  # otherwise the other processes would wait for this one until a timeout
        except (DivergedError, KeyboardInterrupt) as error:
            errors.put(error)
        except (MemoryError, RuntimeError) as error:
            if not is_lack_of_memory(error):
                raise
            errors.put(MemoryError(one_line(error)))
            raise SystemExit(1) from None


@contextmanager
def _process_group(rank: int, processes: Processes, store: Path) -> Iterator[Processes]:
    """Connect this process with the others. torch's default store would listen on all network interfaces."""
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    for backend in ("GLOO", "NCCL"):
        os.environ.setdefault(f"{backend}_SOCKET_IFNAME", loopback)
    device = processes.device
    if device.type != "cpu":
        device = torch.device(device.type, rank)
        torch.accelerator.set_device_index(rank)
    distributed.init_process_group(
        distributed.get_default_backend_for_device(device),
        store=distributed.FileStore(str(store), processes.count),
        rank=rank,
        world_size=processes.count,
        device_id=None if device.type == "cpu" else device,
    )
    yield replace(processes, device=device, rank=rank)
    distributed.destroy_process_group()


def precision_on(device: torch.device, recipe: Recipe) -> str:
    """Return the recipe's precision, or fp32 where bf16 would be emulated, which takes minutes a step."""
    return "fp32" if recipe.precision == "bf16" and not has_bf16(device) else recipe.precision


def has_bf16(device: torch.device) -> bool:
    """Return whether a device has bfloat16 arithmetic."""
    if device.type == "cpu":
        if not torch.backends.mkldnn.is_available():
            return False
        if platform.machine().lower() in ("x86_64", "amd64"):  # oneDNN takes bf16 wherever there is AVX-512, slowly
            return torch.cpu._is_avx512_bf16_supported()
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    if device.type != "cuda":
        return True
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def find_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is the accelerator if there is one, else the CPU.

    Raises:
        InputError: If there is no such device here.
    """
    if name == "auto":
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # fails on a device that stores no numbers, such as meta
    except Exception as error:  # each kind of device fails with an error of its own, ImportError among them
        raise InputError(f"device {name!r} cannot be used here: {one_line(error)}") from None
    return device
