"""Train without a recipe: plain Adam, one learning rate, no warm-up, batches of 128, two epochs of mnist-5k.

    python research/plain_loop.py                # the paper's size and Max-Min: five seeds, two rates, two models
    python research/plain_loop.py --quarter      # a quarter of its kernels and capsule types
    python research/plain_loop.py --normalization softmax --seeds 1

It prints one line per training: model, learning rate, seed, test accuracy.
"""

import argparse
from itertools import product

import torch
from torch import Tensor, nn

from maxmincaps import CapsNet, PrimaryCapsules, RoutedCapsules, capsule_loss, keep_large_blocks, load, margin_loss


class Stack(nn.Module):
    """Two routed layers without a decoder: 16 capsules in between."""

    def __init__(self, channels: int, types: int, **settings: str) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, channels, 9),
            nn.ReLU(),
            PrimaryCapsules(channels, types),
            RoutedCapsules(types * 36, 16, **settings),
            RoutedCapsules(16, 10, part_pose=16, **settings),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return the class lengths, (batch, class)."""
        return self.layers(images).norm(dim=-1)


def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Return the capsule loss of a CapsNet, or the margin loss of a stack."""
    if isinstance(model, CapsNet):
        return capsule_loss(model(images, labels), images, labels)
    return margin_loss(model(images), labels)


def accuracy_percent(model: nn.Module) -> float:
    """Return the accuracy on the test images."""
    test = load("mnist-5k", "test")
    with torch.inference_mode():
        outputs = [model(pixels / 255) for pixels in test.images.split(250)]
    lengths = torch.cat([output if isinstance(output, Tensor) else output.lengths for output in outputs])
    return 100 * (lengths.argmax(1) == test.labels).float().mean().item()


def train(kind: str, channels: int, types: int, lr: float, seed: int, normalization: str) -> float:
    """Train one model for two epochs and return its test accuracy in percent."""
    torch.manual_seed(seed)
    if kind == "CapsNet":
        model: nn.Module = CapsNet(conv_channels=channels, types=types, normalization=normalization)
    else:
        model = Stack(channels, types, normalization=normalization)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    data = load("mnist-5k", "train")
    for chosen in [batch for _ in range(2) for batch in torch.randperm(len(data)).split(128)]:
        loss = loss_of(model, data.images[chosen] / 255, data.labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return accuracy_percent(model)


def main() -> None:
    """Print one line per training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quarter", action="store_true")
    parser.add_argument("--normalization", default="max-min")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    channels, types = (64, 8) if arguments.quarter else (256, 32)
    keep_large_blocks()
    for seed, kind, lr in product(range(arguments.seeds), ("CapsNet", "stack"), (1e-3, 3e-3)):
        accuracy = train(kind, channels, types, lr, seed, arguments.normalization)
        print(f"{kind:8} {arguments.normalization} lr {lr} seed {seed}: {accuracy:.1f} %", flush=True)


if __name__ == "__main__":
    main()
