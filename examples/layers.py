"""Capsule layers in a network of your own: a stack of two routed layers, trained to tell bright from dark halves."""

import torch
from torch import nn

from maxmincaps import PrimaryCapsules, RoutedCapsules, margin_loss

torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 8, 3),
    nn.ReLU(),
    PrimaryCapsules(8, types=4, part_pose=4, kernel=3, stride=2),  # 4 types at 6×6 places
    RoutedCapsules(4 * 6 * 6, 8, part_pose=4, pose=6),
    RoutedCapsules(8, 2, part_pose=6, pose=8),
)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for step in range(60):
    labels = torch.randint(2, (32,))
    images = torch.rand(32, 1, 16, 16) * 0.5
    images[:, :, :8] += (0.5 * labels)[:, None, None, None]  # the upper half is bright in images of class 1
    lengths = network(images).norm(dim=-1)
    loss = margin_loss(lengths, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        right = (lengths.argmax(dim=1) == labels).float().mean()
        print(f"step {step + 1}: loss {loss:.3f}, {right:.0%} right")
