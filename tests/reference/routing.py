"""The two procedures of the paper, line by line, on one image's votes[i][j] (a vector each)."""

import torch

from tests.reference.normalizations import LITERAL, softmax


def squash(s):
    length = s.dot(s) ** 0.5
    if float(length.detach()) == 0:
        return 0 * s
    return length**2 / (1 + length**2) * (s / length)


def softmax_procedure(votes, r):
    """The first box of section 2."""
    children, parents = len(votes), len(votes[0])
    b = [[votes.new_zeros(()) for _ in range(parents)] for _ in range(children)]
    for _ in range(r):
        c = [softmax(b[i]) for i in range(children)]
        s = [sum(c[i][j] * votes[i][j] for i in range(children)) for j in range(parents)]
        v = [squash(s[j]) for j in range(parents)]
        b = [[b[i][j] + votes[i][j].dot(v[j]) for j in range(parents)] for i in range(children)]
    return torch.stack(v)


def ones_procedure(votes, r, normalization="max-min", start=1.0, gain=1.0):
    """The second box of section 2, for any normalization in the place of Max-Min, of logits times a gain."""
    children, parents = len(votes), len(votes[0])
    b = [[votes.new_zeros(()) for _ in range(parents)] for _ in range(children)]
    c = [[start for _ in range(parents)] for _ in range(children)]
    for _ in range(r):
        s = [sum(c[i][j] * votes[i][j] for i in range(children)) for j in range(parents)]
        v = [squash(s[j]) for j in range(parents)]
        b = [[b[i][j] + votes[i][j].dot(v[j]) for j in range(parents)] for i in range(children)]
        c = [LITERAL[normalization]([gain * b[i][j] for j in range(parents)]) for i in range(children)]
    return torch.stack(v)


def final_couplings(votes, r, procedure):
    """The couplings that the last weighted sum of a procedure used, for at least two iterations."""
    children, parents = len(votes), len(votes[0])
    b = [[votes.new_zeros(()) for _ in range(parents)] for _ in range(children)]
    start = {"softmax": 1 / parents, "leaky-softmax": 1 / (parents + 1)}.get(procedure, 1.0)
    for k in range(1, r):
        v = ones_procedure(votes, k, procedure, start)
        b = [[b[i][j] + votes[i][j].dot(v[j]) for j in range(parents)] for i in range(children)]
    return [LITERAL[procedure](b[i]) for i in range(children)]
