"""A stack of capsule layers: a local layer with a residual connection, then two routed layers."""

import torch
from torch import Tensor, nn

from maxmincaps import ConvCapsules, PrimaryCapsules, RoutedCapsules, load, margin_loss, parameter_groups


class Stack(nn.Module):
    """Images (batch, 1, 28, 28) to class lengths (batch, 10). The shapes stand after each line."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 32, 5, stride=2)
        self.primary = PrimaryCapsules(32, types=4, part_pose=8, kernel=3, stride=2)
        self.local = ConvCapsules(4, 4, part_pose=8, pose=8, kernel=3, padding=1)
        self.middle = RoutedCapsules(4 * 5 * 5, 16, part_pose=8, pose=8)
        self.classes = RoutedCapsules(16, 10, part_pose=8, pose=16)

    def forward(self, images: Tensor) -> Tensor:
        features = self.conv(images).relu()  # (batch, 32, 12, 12)
        grid = self.primary(features).unflatten(1, (4, 5, 5))  # (batch, type, row, column, pose)
        grid = grid + self.local(grid)  # the same shape: equal types and poses, stride 1, padding kernel // 2
        middle = self.middle(grid.flatten(1, 3))  # (batch, 16, 8)
        return self.classes(middle).norm(dim=-1)


torch.manual_seed(0)
train, test = load("mnist-5k", "train"), load("mnist-5k", "test")
network = Stack()
optimizer = torch.optim.Adam(parameter_groups(network, lr=1e-3))
for step, batch in enumerate(torch.randperm(len(train)).split(64), start=1):
    for group in optimizer.param_groups:  # the learning rate rises over the first 50 steps
        group["lr"] = 1e-3 * group["rate"] * min(1.0, step / 50)
    loss = margin_loss(network(train.images[batch] / 255), train.labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: loss {loss:.3f}")
with torch.no_grad():
    lengths = network.eval()(test.images / 255)
print(f"test accuracy {(lengths.argmax(dim=1) == test.labels).float().mean().item():.1%}")
