"""For the API pages: show the examples of docstrings, which begin with `>>>`, as code."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(?P<indent> *)(?:Example:\n(?P<inner> *))?>>> .*(?:\n(?! *$) *\S.*)*", re.MULTILINE)
"""A prompt and the lines up to the next empty one, with or without a title before them."""


def with_code_blocks(text: str) -> str:
    """Return a docstring's text with each example in a section of its own."""

    def section(found: re.Match[str]) -> str:
        lines = found[0].removeprefix(f"{found['indent']}Example:\n").splitlines()
        return "\n".join(["Examples:", *(f"    {line.strip()}" for line in lines)])

    return EXAMPLE.sub(section, text)


class Examples(griffe.Extension):
    """Rewrite every docstring while the package is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = with_code_blocks(obj.docstring.value)
