"""Train a capsule network in a plain PyTorch loop: one optimizer, one learning rate, no warm-up."""

import torch

from maxmincaps import CapsNet, capsule_loss, load

torch.manual_seed(0)
train, test = load("mnist-5k", "train"), load("mnist-5k", "test")
network = CapsNet(conv_channels=32, types=4, decoder=(64,))
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)

order = torch.randperm(len(train))[:1920]
for step, batch in enumerate(order.split(64), start=1):
    images, labels = train.images[batch] / 255, train.labels[batch]
    loss = capsule_loss(network(images, labels), images, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss:.3f}")

with torch.no_grad():
    lengths = network.eval()(test.images[:500] / 255).lengths
accuracy = (lengths.argmax(dim=1) == test.labels[:500]).float().mean().item()
print(f"test accuracy {accuracy:.1%}")
