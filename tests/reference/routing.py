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


def ones_procedure(votes, r, normalization="max-min", start=1.0):
    """The second box of section 2, for any normalization in the place of Max-Min."""
    children, parents = len(votes), len(votes[0])
    b = [[votes.new_zeros(()) for _ in range(parents)] for _ in range(children)]
    c = [[start for _ in range(parents)] for _ in range(children)]
    for _ in range(r):
        s = [sum(c[i][j] * votes[i][j] for i in range(children)) for j in range(parents)]
        v = [squash(s[j]) for j in range(parents)]
        b = [[b[i][j] + votes[i][j].dot(v[j]) for j in range(parents)] for i in range(children)]
        c = [LITERAL[normalization](b[i]) for i in range(children)]
    return torch.stack(v)


def final_couplings(votes, r, procedure):
    """The couplings that the last weighted sum of a procedure used."""
    raise_to = {"softmax": softmax}.get(procedure, LITERAL[procedure])
    children, parents = len(votes), len(votes[0])
    b = [[votes.new_zeros(()) for _ in range(parents)] for _ in range(children)]
    before = softmax_procedure if procedure == "softmax" else lambda u, k: ones_procedure(u, k, procedure)
    if r == 1:
        return None
    for k in range(1, r):
        v = before(votes, k)
        b = [[b[i][j] + votes[i][j].dot(v[j]) for j in range(parents)] for i in range(children)]
    return [raise_to(b[i]) for i in range(children)]
