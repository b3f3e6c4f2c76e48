"""Every block of code in the README and the documentation runs, and every link leads somewhere.

A command that would download, train for hours, open a page or use a reader's files is only parsed by our own command
line: names of commands, flags and values must be right.
"""

import re
import tomllib
from contextlib import suppress

import pytest
from cyclopts import MissingArgumentError

from maxmincaps.cli import app, main
from tests.docs.pages import DOCS, NAMES, PAGES, ROOT, SHELLS, blocks, commands, inline_commands, prose

LANGUAGES = {"python", "toml", "json", "text", "", "bibtex", *SHELLS}
QUICK = {"train", "runs", "verify", "evaluate", "export"}
OTHERS = {
    ".",
    "git",
    "cd",
    "dask",
    "python",
    "mkdir",
    "ls",
    "cat",
    "curl",
    "tensorboard",
    "ssh",
    "rsync",
    "cp",
    "taskset",
    "export",
}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
@pytest.mark.usefixtures("small_trainings")
def test_the_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = _normalizations()
    namespace = {"__name__": page.stem}
    try:
        for language, code in blocks(page):
            assert language in LANGUAGES
            if language == "python":
                exec(compile(code, f"{page.name}: {code[:40]!r}", "exec"), namespace)
            if language in SHELLS:
                for words in commands(code):
                    _check(words, tmp_path)
    finally:
        _restore(before)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_commands_inside_sentences_are_right(page):
    for words in inline_commands(page):
        if words and not words[0].startswith("-") and len(words) > 1:
            with suppress(MissingArgumentError):  # a sentence may leave out the reader's files
                _parse(words)


def test_the_recipes_that_pages_name_exist():
    recipes = {path.stem for path in (ROOT / "src" / "maxmincaps" / "recipes").glob("*.toml")}
    named = {name for page in PAGES for name in re.findall(r"--recipe (\w[\w-]*)(?![\w./])", page.read_text("utf-8"))}
    assert named
    assert named <= recipes


def _check(words, folder):
    tool, *rest = words
    if tool == "maxmincaps":
        _call(rest, folder)
    elif tool == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in rest if "=" not in word} <= set(targets)
    elif tool == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for named in re.findall(r"\[([\w,]+)\]", " ".join(rest)):
            assert set(named.split(",")) <= set(extras)
    else:
        assert tool in OTHERS, f"unknown command {tool}"


def _call(words, folder):
    _parse(words)
    if "--import" in words:  # it would execute the reader's file
        return
    verb, *rest = words
    absent = [word for word in rest if word.startswith("runs/") and not (folder / word).exists()]
    asks_for_more = {"--dataset", "--recipe", "--processes", "--device"} & set(words)
    makes_its_folder = verb == "train" and "--resume" not in words
    if verb in QUICK and not asks_for_more and (makes_its_folder or not absent):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert not ended.value.code, f"maxmincaps {' '.join(words)}"


def _parse(words):
    if "--import" in words:  # `main` handles it before the command line is parsed
        at = words.index("--import")
        words = words[:at] + words[at + 2 :]
    app.parse_args(words, print_error=False, exit_on_error=False)


def _normalizations():
    from maxmincaps import NORMALIZATIONS

    return dict(NORMALIZATIONS)


def _restore(before):
    from maxmincaps import NORMALIZATIONS

    NORMALIZATIONS.clear()
    NORMALIZATIONS.update(before)


def test_no_two_pages_train_different_runs_in_one_folder():
    trainings = [
        words
        for page in PAGES
        for language, code in blocks(page)
        if language in SHELLS
        for words in commands(code)
        if words[:2] == ["maxmincaps", "train"] and "--out" in words and "--resume" not in words
    ]
    folders = [words[words.index("--out") + 1] for words in trainings]
    assert len(set(folders)) == len(set(map(tuple, trainings))) > 1


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_of_a_page_leads_to_a_file(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose(page)) + re.findall(
        r'(?:src|srcset)="([^"]+)"', prose(page)
    )
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_to_a_heading_leads_to_one(page):
    for target, heading in re.findall(r"\]\((?!https?:)([^)#\s]*\.md)?#([\w-]+)\)", prose(page)):
        assert heading in _anchors(page.parent / target if target else page), f"{target}#{heading}"


def _anchors(page):
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower())).strip("-") for title in titles}


def test_the_first_page_links_every_other():
    linked = set(re.findall(r"\]\(([\w-]+\.md|api/index\.md)", (DOCS / "index.md").read_text("utf-8")))
    assert linked == {path.name for path in DOCS.glob("*.md")} - {"index.md"} | {"api/index.md"}


def test_every_page_stands_in_the_navigation():
    navigation = re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text("utf-8"))
    assert sorted(navigation) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_the_reference_shows_every_public_name():
    import maxmincaps

    shown = {
        name
        for page in (DOCS / "api").glob("*.md")
        for name in re.findall(r"^::: maxmincaps\.(\w+)$", page.read_text("utf-8"), re.M)
    }
    assert shown == set(maxmincaps.__all__)


def test_the_folders_of_the_architecture_page_are_the_layers_that_are_checked():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [name.strip() for layer in contract["layers"] for name in re.split(r"[|:]", layer)]
    table = re.findall(
        r"^\| `(\w+)(?:/|\.py)` \| (?!what)", (DOCS / "architecture.md").read_text("utf-8"), re.MULTILINE
    )
    assert table[: len(layers)] == layers
