"""One child's couplings from its list of logits, in plain Python arithmetic on scalars."""

import math

from torch import Tensor


def softmax(b):
    largest = max(_number(x) for x in b)
    exps = [_exp(x - largest) for x in b]
    return [e / sum(exps) for e in exps]


def max_min(b, p=0.0, q=1.0):
    if _equal(b):
        return [p + 0 * x for x in b]
    return [p + (x - _min(b)) / (_max(b) - _min(b)) * (q - p) for x in b]


def winner_take_all(b):
    winner = [_number(x) for x in b].index(max(_number(x) for x in b))
    return [1.0 + 0 * x if j == winner else 0 * x for j, x in enumerate(b)]


def sum_(b):
    if abs(_number(sum(b))) < 1e-12:
        return [1 / len(b) + 0 * x for x in b]
    return [x / sum(b) for x in b]


def centered_max_min(b):
    if _equal(b):
        return [0 * x for x in b]
    mean = sum(b) / len(b)
    return [(x - mean) / (_max(b) - _min(b)) for x in b]


def z_score(b):
    if _equal(b):
        return [0 * x for x in b]
    mean = sum(b) / len(b)
    sd = (sum((x - mean) ** 2 for x in b) / len(b)) ** 0.5
    return [(x - mean) / sd for x in b]


def adjusted_log(b):
    return [_log(1 + x - _min(b)) for x in b]


def leaky_softmax(b):
    return softmax([*b, 0 * b[0]])[:-1]


def uniform(b):
    return [1.0 + 0 * x for x in b]


LITERAL = {
    "softmax": softmax,
    "max-min": max_min,
    "winner-take-all": winner_take_all,
    "sum": sum_,
    "centered-max-min": centered_max_min,
    "z-score": z_score,
    "adjusted-log": adjusted_log,
    "leaky-softmax": leaky_softmax,
    "uniform": uniform,
}


def _number(x):
    return float(x.detach()) if isinstance(x, Tensor) else x


def _equal(b):
    return len({_number(x) for x in b}) == 1


def _min(b):
    return min(b, key=_number)


def _max(b):
    return max(b, key=_number)


def _exp(x):
    return x.exp() if isinstance(x, Tensor) else math.exp(x)


def _log(x):
    return x.log() if isinstance(x, Tensor) else math.log(x)
