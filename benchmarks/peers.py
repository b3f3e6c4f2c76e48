"""Time a training step of public PyTorch capsule networks beside ours, on this machine.

Clone the repositories below into one folder, unmodified, and pass that folder. None of their code is part of this
package. Nothing else should run at the same time: threads of two programs wait for each other.

    python benchmarks/peers.py CHECKOUTS --rounds 3 --out peers.json

Each network is timed in its own process, all in turn, for several rounds: batch 128, three routing iterations, margin
and reconstruction loss, Adam. Where their code calls `.cuda()`, the call returns its tensor unchanged.
"""

import argparse
import ast
import json
import subprocess
import sys
import time
import types
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from maxmincaps.benchmark.worker import Case, measure

BATCH, WARM_STEPS, STEPS = 128, 2, 4
PEERS = {
    "danielhavir/capsule-network": ("capsule-network", "model.py", "loss.py"),
    "XifengGuo/CapsNet-Pytorch": ("CapsNet-Pytorch", "capsulenet.py", "capsulenet.py"),
    "AleAyotte/FastCapsNet": ("FastCapsNet", "CapsNet.py", "CapsNet.py"),
}
"""Folder, file of the network and file of the loss."""
OURS = {"maxmincaps, fp32": "ours", "maxmincaps, bf16": "ours, bf16"}
NOT_INSTALLED = ("torchvision", "tqdm", "Mnist")
"""What only their training programs need."""


def definitions(path: Path) -> dict[str, Any]:
    """Execute the imports, constants, classes and functions of a file, but not the training program below them."""
    kept = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    tree.body = [
        node
        for node in tree.body
        if node in constants
        or (isinstance(node, kept) and not any(word in ast.unparse(node) for word in NOT_INSTALLED))
    ]
    module = types.ModuleType(path.stem)
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return vars(module)


def peer(name: str, checkouts: Path) -> tuple[nn.Module, Any]:
    """Build a network and a function that computes its loss of (images, one-hot labels)."""
    folder, network_file, loss_file = PEERS[name]
    sys.path.insert(0, str(checkouts / folder))
    found = definitions(checkouts / folder / network_file)
    losses = definitions(checkouts / folder / loss_file)
    if name.startswith("danielhavir"):
        network = found["CapsuleNetwork"]((1, 28, 28), 256, 8, 10, 16, 3, torch.device("cpu"))
        criterion = losses["CapsuleLoss"](loss_lambda=0.5, recon_loss_scale=5e-4)

        def loss(images: Tensor, targets: Tensor) -> Tensor:
            lengths, reconstruction = network(images)
            return criterion(lengths, targets, images, reconstruction)
    elif name.startswith("XifengGuo"):
        network = found["CapsuleNet"]([1, 28, 28], 10, 3)

        def loss(images: Tensor, targets: Tensor) -> Tensor:
            lengths, reconstruction = network(images, targets)
            return losses["caps_loss"](targets, lengths, images, reconstruction, 0.0005 * 784)
    else:
        network, criterion = found["CapsuleNet"](), losses["CapsuleLoss"]()

        def loss(images: Tensor, targets: Tensor) -> Tensor:
            return criterion(images, targets, *network(images, targets))

    return network, loss


def step_ms(name: str, checkouts: Path) -> float:
    """Return the median time of a training step in milliseconds."""
    if name in OURS:
        case = Case(OURS[name], batch=BATCH, normalization="softmax")
        return measure(case, warm_up=WARM_STEPS, steps=STEPS)["step_ms"]
    torch.Tensor.cuda = nn.Module.cuda = lambda self, *_, **__: self
    network, loss = peer(name, checkouts)
    optimizer = torch.optim.Adam(network.parameters())
    images, targets = torch.rand(BATCH, 1, 28, 28), nn.functional.one_hot(torch.arange(BATCH) % 10, 10).float()
    times = []
    for _ in range(WARM_STEPS + STEPS):
        started = time.perf_counter()
        optimizer.zero_grad()
        loss(images, targets).backward()
        optimizer.step()
        times.append(1000 * (time.perf_counter() - started))
    return median(times[WARM_STEPS:])


def commit(folder: Path) -> str:
    """Return the commit of a checkout."""
    return subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Parse the arguments, time every network in turn and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.only:
        print(json.dumps(step_ms(arguments.only, arguments.checkouts)))
        return
    names = [*OURS, *(name for name in PEERS if (arguments.checkouts / PEERS[name][0]).is_dir())]
    times: dict[str, list[float]] = {name: [] for name in names}
    command = [sys.executable, __file__, str(arguments.checkouts), "--threads", str(arguments.threads), "--only"]
    for _ in range(arguments.rounds):
        for name in names:
            done = subprocess.run([*command, name], capture_output=True, text=True, check=True)
            times[name].append(round(json.loads(done.stdout), 1))
            print(f"{name:30} {times[name][-1]:8.1f} ms a step", flush=True)
    commits = {name: commit(arguments.checkouts / PEERS[name][0]) for name in names if name in PEERS}
    result = {"date": time.strftime("%Y-%m-%d"), "torch": torch.__version__, "threads": arguments.threads}
    result |= {"batch": BATCH, "step_ms": times, "commits": commits}
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
