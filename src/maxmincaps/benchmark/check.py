"""Check an installation on one device: is the arithmetic right, does a network learn, how fast is a step.

Values and gradients on the device in fp32 are compared with the same computation on the CPU in float64.
"""

from collections.abc import Callable, Iterator
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxmincaps.benchmark.worker import CPU, Case, build_step, time_ms
from maxmincaps.capsules.losses import capsule_loss
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.normalizations import NORMALIZATIONS
from maxmincaps.capsules.routing import route
from maxmincaps.errors import InputError, is_lack_of_memory, one_line
from maxmincaps.recipe import Recipe
from maxmincaps.training.environment import environment
from maxmincaps.training.fit import fit
from maxmincaps.training.observer import SILENT, Observer
from maxmincaps.training.processes import has_bf16

TOLERANCE = 1e-3
"""Largest relative difference between fp32 on the device and float64 on the CPU. fp32 on a CPU stays below 1e-4."""
LEAST_ACCURACY = 0.8  # test accuracy that one epoch of `mnist-5k` must reach. Guessing reaches 0.1
Tensors = dict[str, Tensor | None]


class CheckResult(NamedTuple):
    """The outcome of one check. `passed` is None if it could not be made here, for the reason given in `detail`."""

    name: str
    passed: bool | None
    detail: str


def describe_device(device: torch.device) -> dict[str, Any]:
    """Return versions, processor, device, threads and bf16 support, as in a run's environment.json."""
    return {**environment(device).model_dump(exclude={"continued"}), "bf16": has_bf16(device)}


def run_checks(device: torch.device, *, observer: Observer = SILENT) -> Iterator[CheckResult]:
    """Yield the result of each check, the quick ones first. The observer is called at every step of the training."""
    checks: dict[str, Callable[[], tuple[bool | None, str]]] = {
        "normalizations": lambda: _compare(_normalizations, device),
        "routing and its gradients": lambda: _compare(_routing, device),
        "network, loss and gradients": lambda: _compare(_network, device),
        "training on mnist-5k, one epoch": lambda: _train(device, observer),
        "training step": lambda: _time_step(device),
    }
    for name, check in checks.items():
        try:
            passed, detail = check()
        except (InputError, RuntimeError, NotImplementedError) as error:
            lacking = isinstance(error, InputError) or is_lack_of_memory(error)
            passed, detail = (None if lacking else False), one_line(error)
        yield CheckResult(name, passed, detail)


def _compare(compute: Callable[[torch.device, torch.dtype], Tensors], device: torch.device) -> tuple[bool, str]:
    """Compare the tensors that a function computes on the device in fp32 with those on the CPU in float64."""
    found, exact = compute(device, torch.float32), compute(CPU, torch.float64)
    errors = {name: _difference(found[name], tensor) for name, tensor in exact.items()}
    worst = max(errors, key=errors.__getitem__)
    return errors[worst] <= TOLERANCE, f"largest relative difference {errors[worst]:.1e} ({worst})"


def _difference(found: Tensor | None, exact: Tensor | None) -> float:
    """Return the norm of the difference relative to the norm of the exact tensor."""
    if found is None or exact is None:
        return 0.0 if found is exact else float("inf")
    return ((found.cpu().double() - exact).norm() / exact.norm().clamp(min=1e-12)).item()


def _normalizations(device: torch.device, dtype: torch.dtype) -> Tensors:
    return _with_gradients(lambda name, logits: NORMALIZATIONS[name](logits[..., 0]), device, dtype)


def _routing(device: torch.device, dtype: torch.dtype) -> Tensors:
    return _with_gradients(lambda name, votes: route(votes, name), device, dtype)


def _with_gradients(
    compute: Callable[[str, Tensor], Tensor], device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor | None]:
    """Return a function of every normalization and random numbers, and its gradients."""
    found = {}
    for name in NORMALIZATIONS:
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(4, 24, 10, 16, generator=generator, dtype=torch.float64)
        inputs = inputs.to(device, dtype).requires_grad_()
        value = compute(name, inputs)
        if value.requires_grad:  # Constant coefficients have no gradient.
            weights = torch.rand(value.shape, generator=generator, dtype=torch.float64)
            (value * weights.to(device, dtype)).sum().backward()
        found |= {name: value.detach(), f"gradient of {name}": inputs.grad}
    return found


def _network(device: torch.device, dtype: torch.dtype) -> Tensors:
    """Return the lengths, the loss and every gradient of a small network."""
    torch.manual_seed(0)
    network = CapsNet(conv_channels=32, types=4, decoder=(64,)).to(device, dtype)
    images, labels = torch.rand(8, 1, 28, 28).to(device, dtype), torch.arange(8, device=device)
    output = network(images, labels)
    loss = capsule_loss(output, images, labels)
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
    return {"lengths": output.lengths.detach(), "loss": loss.detach(), **gradients}


def _train(device: torch.device, observer: Observer) -> tuple[bool, str]:
    with TemporaryDirectory() as folder:
        run = fit(Recipe(dataset="mnist-5k", epochs=1, device=str(device)), f"{folder}/run", observer=observer)
        accuracy, speed = run.result.final_test_accuracy, run.history[-1].images_per_s
    return accuracy >= LEAST_ACCURACY, f"{accuracy:.1%} of 1,000 test images right, {speed:.0f} images/s"


def _time_step(device: torch.device) -> tuple[bool, str]:
    """Time our training step and the textbook's in turn. A slow step is no error."""
    cases = (Case("ours"), Case("textbook"))
    steps = [build_step(case, device) for case in cases]
    times = [[time_ms(step) for step in steps] for _ in range(4)]
    ours, textbook = (median(column) for column in zip(*times[1:], strict=True))
    return True, f"batch {cases[0].batch}: ours {ours:.0f} ms, textbook {textbook:.0f} ms, ratio {textbook / ours:.1f}"
