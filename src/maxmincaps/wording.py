"""Numbers in words, in one form wherever a run is told of."""


def percent(share: float | None, digits: int = 2) -> str:
    """Write a fraction as a percentage."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def pluralize(number: int, thing: str) -> str:
    """Say how many: 1 epoch, 2 epochs."""
    return f"{number:,} {thing}{'s' * (number != 1)}"
