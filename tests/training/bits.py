"""The weights that a run has left, and whether two runs have left the same bits."""

from safetensors.torch import load_file


def weights_of(run, which="last"):
    return load_file(run.folder / f"{which}.safetensors")


def equal_bits(ours, theirs, which="last"):
    ours, theirs = weights_of(ours, which), weights_of(theirs, which)
    return ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)
