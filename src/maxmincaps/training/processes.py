"""Devices, processes and signals: a run uses one device, or several processes that share each batch.

Several processes are started by Lightning Fabric. A run in one process does not import Fabric, whose import takes
longer than all others together. SIGINT and SIGTERM are requests to stop, which are granted between two steps.
"""

import platform
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_bool
from functools import partial
from multiprocessing import active_children, get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import ProcessException

from maxmincaps.errors import DivergedError, InputError, is_lack_of_memory, one_line
from maxmincaps.recipe import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from maxmincaps.training.loopback import LoopbackDDP

Processes: TypeAlias = "OneProcess | Fabric"


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

        Ctrl-C reaches all processes. A process that it ended before its task began would be waited for, and only the
        first process decides when to interrupt at once.
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


class OneProcess:
    """The part of Fabric's interface that training uses, for a single process."""

    world_size, global_rank, is_global_zero = 1, 0, True

    def __init__(self, device: torch.device, precision: str) -> None:
        self.device, self.precision = device, precision

    def setup(self, module: nn.Module, *optimizers: torch.optim.Optimizer) -> tuple[Any, ...]:
        """Move the network to the device. The optimizers hold the same parameters and are returned unchanged."""
        return (_Autocast(module.to(self.device), self.precision), *optimizers)

    def backward(self, tensor: Tensor) -> None:
        """Compute the gradients."""
        tensor.backward()

    def all_reduce(self, data: Tensor, *, reduce_op: str) -> Tensor:  # noqa: ARG002
        """Return the tensor unchanged."""
        return data

    def all_gather(self, data: Tensor) -> Tensor:
        """Return the tensor with a leading axis of length 1."""
        return data.unsqueeze(0)

    def barrier(self) -> None:
        """Return at once."""


class _Autocast(nn.Module):
    """A network that runs under autocast in the recipe's precision."""

    def __init__(self, module: nn.Module, precision: str) -> None:
        super().__init__()
        self.module, self.precision = module, precision

    def forward(self, *arguments: Any) -> Any:
        device = next(self.module.parameters()).device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.precision == "bf16"):
            return self.module(*arguments)


ONE_PROCESS = OneProcess(torch.device("cpu"), "fp32")
"""This process, on the CPU, in single precision."""


def sum_over(processes: Processes, *numbers: float) -> list[float]:
    """Return the sum of each number over all processes, in double precision."""
    summed = processes.all_reduce(torch.tensor(numbers, dtype=torch.float64, device="cpu"), reduce_op="sum")
    return cast(Tensor, summed).tolist()


def processes_for(recipe: Recipe) -> Processes:
    """Return the device, precision and processes that a recipe asks for.

    Raises:
        InputError: If the device or the number of processes is not available on this machine.
    """
    device = find_device(recipe.device)
    precision = precision_on(device, recipe)
    if recipe.processes == 1:
        return OneProcess(device, precision)
    from lightning_fabric import Fabric
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    from maxmincaps.training.loopback import LoopbackDDP

    if device.index is not None:
        raise InputError(f"{recipe.processes} processes take a device each: expected {device.type}, found {device}")
    try:
        return Fabric(
            accelerator=device.type,
            devices=recipe.processes,
            strategy=LoopbackDDP(start_method="spawn"),
            precision="bf16-mixed" if precision == "bf16" else "32-true",
        )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        raise InputError(
            f"{recipe.processes} processes cannot be started on {device.type} (add --device cpu?): {one_line(error)}"
        ) from None


def launch(processes: Processes, task: Callable[[Processes], None], request: StopRequest) -> None:
    """Run a task in every process and wait for all of them; raise the first error here.

    No process is left when this returns or raises.
    """
    if isinstance(processes, OneProcess):
        task(processes)
        return
    others, errors = set(active_children()), get_context("spawn").SimpleQueue()
    with TemporaryDirectory(prefix="maxmincaps-") as private:
        cast("LoopbackDDP", processes.strategy).store = Path(private) / "store"
        try:
            processes.launch(partial(_run_task, task=task, errors=errors, threads=torch.get_num_threads()))
        except ProcessException:
            if request:
                errors.put(KeyboardInterrupt())  # the signal ended them while they were starting
            if errors.empty():
                raise
        except KeyboardInterrupt:
            for child in set(active_children()) - others:
                child.kill()
                child.join()
            raise
    if not errors.empty():
        raise errors.get()  # the first is the cause; the others fail because one process is missing


def _run_task(processes: Processes, task: Callable[[Processes], None], errors: SimpleQueue, threads: int) -> None:
    """Run the task in a spawned process and put its error into the queue, which keeps the error's type."""
    torch.set_num_threads(threads)  # Fabric has divided them already, and the task would do so again
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
