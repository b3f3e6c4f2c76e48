"""Check an installation on one device: is the arithmetic right, does a network learn, how fast is a step.

Values and gradients on the device in fp32 are compared with the same computation on the CPU in float64.
"""

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from maxmincaps.benchmark.textbook import TextbookCapsNet
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
LEAST_ACCURACY = 0.8
"""Test accuracy that one epoch of `mnist-5k` must reach. Guessing reaches 0.1."""


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check."""

    name: str
    passed: bool | None
    """None: the check could not be made here, for the reason given in `detail`."""
    detail: str


def describe_device(device: torch.device) -> dict[str, Any]:
    """Return versions, processor, device, threads and bf16 support, as in a run's environment.json."""
    return {**environment(device).model_dump(exclude={"continued"}), "bf16": has_bf16(device)}


def run_checks(device: torch.device, *, observer: Observer = SILENT) -> Iterator[CheckResult]:
    """Yield the result of each check, the quick ones first.

    Args:
        device: The device to check.
        observer: Called at every step of the training.
    """
    checks: dict[str, Callable[[], tuple[bool | None, str]]] = {
        "normalizations": lambda: _compare_all(_normalize, device),
        "routing and its gradients": lambda: _compare_all(_route, device),
        "network, loss and gradients": lambda: _compare_network(device),
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


def to_json(device: torch.device, results: list[CheckResult]) -> dict[str, Any]:
    """Return the results as the JSON object to attach to a bug report."""
    return {"environment": describe_device(device), "checks": [asdict(result) for result in results]}


def _compare_all(compute: Callable[[str, Tensor], Tensor], device: torch.device) -> tuple[bool, str]:
    """Compare a function of every normalization, and its gradient, with float64 on the CPU."""
    errors = {}
    for name in NORMALIZATIONS:
        found = []
        for where, dtype in ((device, torch.float32), (torch.device("cpu"), torch.float64)):
            inputs = torch.randn(4, 24, 10, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            inputs = inputs.to(where, dtype).requires_grad_()
            value = compute(name, inputs)
            if value.requires_grad:  # Constant coefficients have no gradient.
                weights = torch.rand(value.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
                (value * weights.to(where, dtype)).sum().backward()
            found.append((value.detach(), inputs.grad))
        errors[name] = max(_difference(ours, exact) for ours, exact in zip(*found, strict=True))
    worst = max(errors, key=errors.__getitem__)
    return errors[worst] <= TOLERANCE, f"largest relative difference {errors[worst]:.1e} ({worst})"


def _normalize(name: str, inputs: Tensor) -> Tensor:
    return NORMALIZATIONS[name](inputs[..., 0])


def _route(name: str, votes: Tensor) -> Tensor:
    return route(votes, name)


def _compare_network(device: torch.device) -> tuple[bool, str]:
    """Compare the lengths, the loss and every gradient of a small network with float64 on the CPU."""
    torch.manual_seed(0)
    network = CapsNet(conv_channels=32, types=4, decoder=(64,))
    images, labels = torch.rand(8, 1, 28, 28), torch.arange(8)
    found = []
    for where, dtype in ((device, torch.float32), (torch.device("cpu"), torch.float64)):
        copy = deepcopy(network).to(where, dtype)
        given = images.to(where, dtype)
        output = copy(given, labels.to(where))
        loss = capsule_loss(output, given, labels.to(where))
        loss.backward()
        gradients = {name: parameter.grad for name, parameter in copy.named_parameters()}
        found.append({"lengths": output.lengths.detach(), "loss": loss.detach(), **gradients})
    errors = {name: _difference(found[0][name], exact) for name, exact in found[1].items()}
    worst = max(errors, key=errors.__getitem__)
    return errors[worst] <= TOLERANCE, f"largest relative difference {errors[worst]:.1e} ({worst})"


def _difference(found: Tensor | None, exact: Tensor | None) -> float:
    """Return the norm of the difference relative to the norm of the exact tensor."""
    if found is None or exact is None:
        return 0.0 if found is exact else float("inf")
    return ((found.cpu().double() - exact).norm() / exact.norm().clamp(min=1e-12)).item()


def _train(device: torch.device, observer: Observer) -> tuple[bool, str]:
    with TemporaryDirectory() as folder:
        run = fit(Recipe(dataset="mnist-5k", epochs=1, device=str(device)), f"{folder}/run", observer=observer)
        accuracy, speed = run.result.final_test_accuracy, run.history[-1].images_per_s
    return accuracy >= LEAST_ACCURACY, f"{accuracy:.1%} of 1,000 test images right, {speed:.0f} images/s"


def _time_step(device: torch.device, *, batch: int = 128, steps: int = 3) -> tuple[bool, str]:
    """Time our training step and the textbook's in turn. A slow step is no error."""
    networks: dict[str, nn.Module] = {"ours": CapsNet(), "textbook": TextbookCapsNet()}
    times: dict[str, list[float]] = {name: [] for name in networks}
    images, labels = torch.rand(batch, 1, 28, 28, device=device), torch.randint(0, 10, (batch,), device=device)
    optimizers = {name: torch.optim.Adam(one.to(device).parameters(), fused=True) for name, one in networks.items()}
    for _ in range(1 + steps):
        for name, network in networks.items():
            started = time.perf_counter()
            loss = capsule_loss(network(images, labels), images, labels)
            loss.backward()
            optimizers[name].step()
            optimizers[name].zero_grad()
            loss.item()  # Waits until the device has finished.
            times[name].append(1000 * (time.perf_counter() - started))
    ours, textbook = (median(times[name][1:]) for name in ("ours", "textbook"))
    return True, f"batch {batch}: ours {ours:.0f} ms, textbook {textbook:.0f} ms, ratio {textbook / ours:.1f}"
