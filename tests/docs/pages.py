"""The pages and their blocks of code."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELLS = ("console", "sh", "bash", "shell")


def blocks(page):
    """Return (language, code) of every fenced block, in order."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def prose(page):
    """Return the text of a page without its blocks of code."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def commands(code):
    """Return the words of every command in a shell block. Where prompts are shown, other lines are output."""
    lines = code.replace("\\\n", " ").splitlines()
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    shown = prompted or lines
    return [words for line in shown if (words := shlex.split(line, comments=True))]


def inline_commands(page):
    """Return the words of every `maxmincaps …` command that stands inside a sentence or a table."""
    found = re.findall(r"`(maxmincaps [^`\n]+)`", prose(page))
    return [shlex.split(line)[1:] for line in found]
