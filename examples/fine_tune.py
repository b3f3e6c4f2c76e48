"""Fine-tune the shipped digit network on a new task: new classes, the convolutions frozen.

The frozen layers need to run only once. To train them too, assign the new classes to `network.digits` first and pass
`parameter_groups(network, lr=1e-4, scale={"digits": 10})` to the optimizer. The accuracy is optimistic, because the
shipped network was trained on all of MNIST, which includes these digits.
"""

import torch

from maxmincaps import RoutedCapsules, load, load_network, margin_loss

torch.manual_seed(0)
train, test = load("mnist-5k", "train").take(slice(600)), load("mnist-5k", "test").take(slice(200))
labels, test_labels = train.labels % 2, test.labels % 2  # the new task: even or odd

network = load_network()
with torch.no_grad():
    parts = torch.cat([network.parts(images / 255) for images in train.images.split(100)])
    test_parts = torch.cat([network.parts(images / 255) for images in test.images.split(100)])

children, part_pose = parts.shape[1:]
classes = RoutedCapsules(children, parents=2, part_pose=part_pose, pose=16)
optimizer = torch.optim.Adam(classes.parameters(), lr=1e-3)
for epoch in range(3):
    for batch in torch.randperm(len(parts)).split(50):
        loss = margin_loss(classes(parts[batch]).norm(dim=-1), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = classes(test_parts).norm(dim=-1).argmax(dim=1) == test_labels
    print(f"epoch {epoch + 1}: {right.float().mean().item():.1%} of the test digits right, even or odd")
network.digits = classes
