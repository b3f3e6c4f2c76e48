"""`maxmincaps recipe`."""

from maxmincaps.cli.terminal import console, table
from maxmincaps.errors import check_name
from maxmincaps.recipe import NAMED


def recipe(name: str | None = None) -> None:
    """Print a recipe of the package: its claim, cost and settings. Without a name, list all recipes.

    Parameters
    ----------
    name: str
        The name of a recipe.
    """
    if name:
        path = NAMED[check_name(name, NAMED, "recipe")]
        console.print_line(path.read_text(encoding="utf-8").rstrip())
        return
    shown = table("Recipes (maxmincaps train --recipe NAME)", "name", "description")
    for name, path in NAMED.items():
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        shown.add_row(name, first.removeprefix("# ").rstrip("."))
    console.print(shown)
