"""Where a run happens: on one device, or in several processes that share each batch.

Several processes are Fabric's. A run in one process needs a device, a precision and nothing else; it does without
Fabric, whose import takes longer than all others together.
"""

import platform
from collections.abc import Callable
from functools import partial
from multiprocessing import active_children, get_context
from multiprocessing.queues import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import ProcessException

from maxmincaps.errors import DivergedError, InputError, is_lack_of_memory, one_line
from maxmincaps.recipe import Recipe
from maxmincaps.training.interrupt import StopRequest

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Processes: TypeAlias = "OneProcess | Fabric"


class OneProcess:
    """This process, alone, with as much of Fabric's interface as we use."""

    world_size, global_rank, is_global_zero = 1, 0, True

    def __init__(self, device: torch.device, precision: str) -> None:
        self.device, self.precision = device, precision

    def setup(self, module: nn.Module, *optimizers: torch.optim.Optimizer) -> tuple[Any, ...]:
        """Move the network to the device; its optimizers hold the same parameters and come along."""
        return (_Autocast(module.to(self.device), self.precision), *optimizers)

    def backward(self, tensor: Tensor) -> None:
        """Make gradients."""
        tensor.backward()

    def all_reduce(self, data: Tensor, *, reduce_op: str) -> Tensor:  # noqa: ARG002
        """Give the tensor back: there is nobody else."""
        return data

    def all_gather(self, data: Tensor) -> Tensor:
        """Stack this one tensor."""
        return data.unsqueeze(0)

    def barrier(self) -> None:
        """Wait for nobody."""


class _Autocast(nn.Module):
    """A network whose large products run in the recipe's precision."""

    def __init__(self, module: nn.Module, precision: str) -> None:
        super().__init__()
        self.module, self.precision = module, precision

    def forward(self, *arguments: Any) -> Any:
        device = next(self.module.parameters()).device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.precision == "bf16"):
            return self.module(*arguments)


def processes_for(recipe: Recipe) -> Processes:
    """Choose device, precision and processes."""
    device = _device(recipe.device)
    precision = precision_on(device, recipe)
    if recipe.processes == 1:
        return OneProcess(device, precision)
    from lightning_fabric import Fabric
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    if device.index is not None:
        raise InputError(f"{recipe.processes} processes take a device each: expected {device.type}, found {device}")
    try:
        return Fabric(
            accelerator=device.type,
            devices=recipe.processes,
            strategy="ddp_spawn",
            precision="bf16-mixed" if precision == "bf16" else "32-true",
        )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        raise InputError(
            f"{recipe.processes} processes cannot be started on {device.type} (add --device cpu?): {one_line(error)}"
        ) from None


def launch(processes: Processes, task: Callable[[Processes], None], request: StopRequest) -> None:
    """Do the task in every process, and raise here what kept them from ending it. None is left when this returns."""
    if isinstance(processes, OneProcess):
        task(processes)
        return
    others, errors = set(active_children()), get_context("spawn").SimpleQueue()
    try:
        processes.launch(partial(_tell, task=task, errors=errors, threads=torch.get_num_threads()))
    except ProcessException:
        if request:
            errors.put(KeyboardInterrupt())  # it ended them while they were starting
        if errors.empty():
            raise
    except KeyboardInterrupt:
        for child in set(active_children()) - others:
            child.kill()
            child.join()
        raise
    if not errors.empty():
        raise errors.get()  # the first is the cause: the processes that are left alone fail too


def _tell(processes: Processes, task: Callable[[Processes], None], errors: SimpleQueue, threads: int) -> None:
    """Do the task. An error is sent as it is: raised, it would arrive as another, and Ctrl-C would never arrive."""
    torch.set_num_threads(threads)  # as many as at home: Fabric has divided them, and the task would do so again
    try:
        task(processes)
    except InputError as error:
        errors.put(error)
        raise SystemExit(1) from None  # or the others might wait for this one until a timeout
    except (DivergedError, KeyboardInterrupt) as error:
        errors.put(error)
    except (MemoryError, RuntimeError) as error:
        if not is_lack_of_memory(error):
            raise
        errors.put(MemoryError(one_line(error)))
        raise SystemExit(1) from None


def precision_on(device: torch.device, recipe: Recipe) -> str:
    """Give the recipe's precision, or fp32 where bf16 would have to be emulated: that takes minutes a step."""
    return "fp32" if recipe.precision == "bf16" and not has_bf16(device) else recipe.precision


def has_bf16(device: torch.device) -> bool:
    """Tell whether a device has bfloat16 arithmetic."""
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


def _device(name: str) -> torch.device:
    """Understand a device's name; `auto` is the accelerator, if there is one."""
    if name == "auto":
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # a device without numbers, such as meta, has none to give
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"device {name!r} cannot be used here: {one_line(error)}") from None
    return device
