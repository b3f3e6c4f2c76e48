"""Classify a digit with the shipped network and print every routing iteration."""

import torch

from maxmincaps import load, load_network

network = load_network()
digits = load("mnist-5k", "test")  # this network was trained on these digits, so accuracy would be optimistic
image = digits.images[:1] / 255

with torch.no_grad():
    winner = network(image).lengths[0].argmax()
    steps = list(network.digits.steps(network.parts(image)))
print(f"labelled {digits.classes[digits.labels[0]]}, recognised as {digits.classes[winner]}")
for number, step in enumerate(steps, 1):
    lengths = " ".join(f"{length:.2f}" for length in step.poses.norm(dim=-1)[0])
    print(f"iteration {number}: spread of the routing coefficients {step.couplings.std():.2f}, class lengths {lengths}")
