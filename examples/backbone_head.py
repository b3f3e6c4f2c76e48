"""A capsule head on a backbone: anything that returns feature maps, here a small network of our own.

With timm, `timm.create_model(name, num_classes=0, global_pool="")` returns feature maps, and `model.num_features` is
`in_channels`. With torchvision, `nn.Sequential(*list(resnet.children())[:-2])` does.
"""

import torch
from torch import nn

from maxmincaps import CapsuleHead, load, margin_loss


class Backbone(nn.Module):
    """Three convolutions with batch norm, from images to feature maps of a quarter of their rows and columns."""

    num_features = 32

    def __init__(self) -> None:
        super().__init__()
        layers = []
        for before, after, stride in [(1, 16, 1), (16, 32, 2), (32, 32, 2)]:
            layers += [nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


torch.manual_seed(0)
train, test = load("mnist-5k", "train"), load("mnist-5k", "test")
losses = {
    "margin loss": margin_loss,
    "cross-entropy": lambda lengths, labels: nn.functional.cross_entropy(10 * lengths, labels),
}
for name, compute_loss in losses.items():
    model = nn.Sequential(Backbone(), CapsuleHead(classes=10, in_channels=Backbone.num_features))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for batch in torch.randperm(len(train))[:1600].split(32):
        loss = compute_loss(model(train.images[batch] / 255), train.labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        lengths = model.eval()(test.images[:500] / 255)
    accuracy = (lengths.argmax(dim=1) == test.labels[:500]).float().mean().item()
    print(f"{name}: test accuracy {accuracy:.1%}")
print("images of 64×48 give lengths of", tuple(model(torch.rand(2, 1, 64, 48)).shape))
