"""Train a small network on the digits of the package, and read its run folder."""

from pathlib import Path
from tempfile import mkdtemp

from maxmincaps import Recipe, fit, load_network

folder = Path(mkdtemp()) / "run"
recipe = Recipe(conv_channels=32, types=4, decoder=(64,), train_images=500, test_images=200, epochs=2)
run = fit(recipe, folder)

for line in run.history:
    accuracy, spread = line.test_accuracy, line.coupling_spread
    print(f"epoch {line.epoch}: test accuracy {accuracy:.1%}, coupling spread {spread:.2f}")
print(run)
print(load_network(folder))
