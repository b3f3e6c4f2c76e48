"""A capsule network in a scikit-learn pipeline, under cross-validation, on its 8×8 digits."""

from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from maxmincaps import CapsNetClassifier

pixels, labels = load_digits(return_X_y=True)
settings = {"conv_channels": 16, "conv_kernel": 3, "types": 8, "primary_kernel": 3, "decoder": [32]}
for normalization in ("max-min", "softmax"):
    classifier = CapsNetClassifier(
        normalization=normalization, settings=settings, epochs=6, batch_size=20, learning_rate=0.01
    )
    scores = cross_val_score(make_pipeline(MinMaxScaler(), classifier), pixels[:600], labels[:600], cv=3)
    print(f"{normalization}: {scores.mean():.1%} right, over 3 folds of 600 digits")
