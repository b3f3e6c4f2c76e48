"""Format numbers and units in one way everywhere."""


def percent(share: float | None, digits: int = 2) -> str:
    """Format a fraction of 1 as a percentage; None as a dash."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def pluralize(number: int, thing: str, plural: str | None = None) -> str:
    """Return a number with its noun: 1 epoch, 2 epochs; the plural of others than these must be given."""
    return f"{number:,} {thing if number == 1 else plural or f'{thing}s'}"


def duration(seconds: float) -> str:
    """Return a duration in a unit that suits it: 12 s, 3.4 min, 2.1 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
