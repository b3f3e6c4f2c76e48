"""The network as public PyTorch code writes it: plain convolutions, votes held in memory, autograd through routing.

Our speed is measured against it. Tests check that it computes the same as `CapsNet` with the same weights.
"""

import torch
from torch import Tensor, nn

from maxmincaps.capsules.decoder import Decoder
from maxmincaps.capsules.network import CapsNetOutput


def squash(poses: Tensor) -> Tensor:
    """‖s‖² / (1 + ‖s‖²) · s / ‖s‖."""
    squared = (poses**2).sum(dim=-1, keepdim=True)
    return squared / (1 + squared) * poses / (squared.sqrt() + 1e-12)


class TextbookCapsNet(nn.Module):
    """The paper's network with Max-Min, one line of code for each line of the procedure.

    Votes are one broadcast matrix product, as in most public implementations. With
    `routing_outside_autograd`, gradients flow through the last iteration only, as in few of them.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int] = (1, 28, 28),
        *,
        conv_channels: int = 256,
        types: int | None = None,
        classes: int = 10,
        iterations: int = 3,
        routing_outside_autograd: bool = False,
    ) -> None:
        super().__init__()
        self.iterations, self.routing_outside_autograd = iterations, routing_outside_autograd
        channels, height, _ = image_shape
        types, side = types or (32 if channels == 1 else 64), (height - 8 - 9) // 2 + 1
        self.conv1 = nn.Conv2d(channels, conv_channels, 9)
        self.primary = nn.Conv2d(conv_channels, types * 8, 9, stride=2)
        self.weights = nn.Parameter(0.01 * torch.randn(types * side * side, classes, 16, 8))
        self.decoder = Decoder(classes, 16, image_shape)

    def forward(self, images: Tensor, labels: Tensor) -> CapsNetOutput:
        """Classify and reconstruct."""
        maps = self.primary(self.conv1(images).relu()).relu()
        batch, channels, height, width = maps.shape
        parts = maps.view(batch, channels // 8, 8, height * width).transpose(2, 3).reshape(batch, -1, 8)
        poses = self.route(squash(parts))
        return CapsNetOutput(poses, poses.norm(dim=-1), self.decoder(poses, labels))

    def route(self, parts: Tensor) -> Tensor:
        """Form the votes, then repeat: weighted sum, squash, agreement, Max-Min."""
        votes = (self.weights @ parts[:, :, None, :, None]).squeeze(-1)
        logits = votes.new_zeros(votes.shape[:3])
        couplings = torch.ones_like(logits)
        for iteration in range(self.iterations):
            is_last = iteration == self.iterations - 1
            has_gradients = torch.is_grad_enabled() and (is_last or not self.routing_outside_autograd)
            with torch.set_grad_enabled(has_gradients):
                poses = squash((couplings.unsqueeze(-1) * votes).sum(dim=1))
                if not is_last:
                    logits = logits + (votes * poses.unsqueeze(1)).sum(dim=-1)
                    low, high = logits.amin(-1, keepdim=True), logits.amax(-1, keepdim=True)
                    couplings = (logits - low) / (high - low + 1e-12)
        return poses  # pyrefly: ignore[unbound-name]
