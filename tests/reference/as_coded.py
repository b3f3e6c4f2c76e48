"""The network, loss and Adam of Sabour's code (research/capsules), transcribed function by function in plain torch.

Names follow that code. Nothing of this package is used.
"""

import torch
from torch.nn import functional


def squash(input_tensor):
    norm = input_tensor.norm(dim=2, keepdim=True)
    norm_squared = norm * norm
    return (input_tensor / norm) * (norm_squared / (1 + norm_squared))


def update_routing(votes, biases, num_routing, normalize):
    """votes: (batch, input_dim, output_dim, output_atoms, ...); biases: (output_dim, output_atoms, ...)."""
    logits = torch.zeros_like(votes[:, :, :, 0])
    for _ in range(num_routing):
        route = normalize(logits)
        preactivate = (route.unsqueeze(3) * votes).sum(dim=1) + biases
        activation = squash(preactivate)
        distances = (votes * activation.unsqueeze(1)).sum(dim=3)
        logits = logits + distances
    return activation


def softmax_over_outputs(logits):
    return torch.softmax(logits, dim=2)


def inference(weights, images, types, iterations=3):
    """Conv1, conv_slim_capsule with one iteration, capsule layer: (batch, class, 16)."""
    relu1 = functional.relu(functional.conv2d(images, weights["conv1.weight"], weights["conv1.bias"]))
    conv = functional.conv2d(relu1, weights["primary.convolution.weight"], stride=2)
    batch, channels, height, width = conv.shape
    atoms = channels // types
    votes = conv.reshape(batch, 1, types, atoms, height, width)
    biases = weights["primary.convolution.bias"].reshape(types, atoms, 1, 1)
    capsule1 = update_routing(votes, biases, 1, softmax_over_outputs)  # (batch, types, atoms, height, width)
    capsule1 = capsule1.permute(0, 1, 3, 4, 2).reshape(batch, types * height * width, atoms)
    votes = torch.einsum("ijdk,bik->bijd", weights["digits.weights"], capsule1)
    return update_routing(votes, weights["digits.bias"], iterations, softmax_over_outputs)


def reconstruction(weights, capsule, labels):
    mask = functional.one_hot(labels, capsule.shape[1]).to(capsule.dtype)
    hidden = (capsule * mask.unsqueeze(2)).flatten(1)
    hidden = functional.relu(
        functional.linear(hidden, weights["decoder.layers.0.weight"], weights["decoder.layers.0.bias"])
    )
    hidden = functional.relu(
        functional.linear(hidden, weights["decoder.layers.2.weight"], weights["decoder.layers.2.bias"])
    )
    return torch.sigmoid(
        functional.linear(hidden, weights["decoder.layers.4.weight"], weights["decoder.layers.4.bias"])
    )


def margin_loss(labels, raw_logits, margin=0.4, downweight=0.5):
    logits = raw_logits - 0.5
    positive_cost = labels * (logits < margin) * (logits - margin) ** 2
    negative_cost = (1 - labels) * (logits > -margin) * (logits + margin) ** 2
    return 0.5 * positive_cost + downweight * 0.5 * negative_cost


def loss(weights, images, labels, types, balance_factor=0.0005):
    """The mean of the margin cost over images *and classes*, plus the reconstruction's sum of squares."""
    capsule = inference(weights, images, types)
    one_hot = functional.one_hot(labels, capsule.shape[1]).to(images.dtype)
    classification = margin_loss(one_hot, capsule.norm(dim=2)).mean()
    distance = (reconstruction(weights, capsule, labels) - images.flatten(1)) ** 2
    return classification + balance_factor * distance.sum(dim=1).mean()


def first_adam_step(gradient, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """TensorFlow's AdamOptimizer at t = 1: what is added to a variable."""
    m, v = (1 - beta1) * gradient, (1 - beta2) * gradient**2
    rate = learning_rate * (1 - beta2) ** 0.5 / (1 - beta1)
    return -rate * m / (v**0.5 + epsilon)
