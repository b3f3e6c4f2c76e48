"""The pages and their blocks of code."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELLS = ("console", "sh", "bash", "shell")


def blocks(page):
    """Give (language, code) of every fenced block, in order."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(code):
    """Give the words of every command in a block for a shell; where prompts are shown, other lines are output."""
    lines = code.replace("\\\n", " ").splitlines()
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    shown = prompted or lines
    return [words for line in shown if (words := shlex.split(line, comments=True))]
