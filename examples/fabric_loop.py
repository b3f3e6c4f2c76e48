"""The same loop with Lightning Fabric, which moves it to any device, precision or number of processes."""

import torch
from lightning_fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

from maxmincaps import CapsNet, capsule_loss, load

fabric = Fabric(accelerator="cpu", devices=1, precision="32-true")
fabric.seed_everything(0, verbose=False)
train = load("mnist-5k", "train").take(slice(640))
loader = fabric.setup_dataloaders(DataLoader(TensorDataset(train.images / 255, train.labels), 64, shuffle=True))
network = CapsNet(conv_channels=32, types=4, decoder=(64,))
network, optimizer = fabric.setup(network, torch.optim.Adam(network.parameters(), lr=3e-3))

for epoch in range(2):
    losses = []
    for images, labels in loader:
        loss = capsule_loss(network(images, labels), images, labels)
        optimizer.zero_grad()
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    fabric.print(f"epoch {epoch + 1}: mean loss {sum(losses) / len(losses):.3f}")
