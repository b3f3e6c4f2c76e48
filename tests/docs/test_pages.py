"""Every block of code in the README and the documentation is run; where it asks for too much, it is understood.

A command that would download, train for hours, open a page or use files of yours is parsed by our own command line:
names of verbs, flags and values must be right.
"""

import re
import tomllib

import pytest

from maxmincaps.cli import app, main
from tests.docs.pages import BLOCK, NAMES, PAGES, ROOT, SHELLS, blocks, commands

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
                    _understood(words, tmp_path)
    finally:
        _restore(before)


def _understood(words, folder):
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
    app.parse_args(words, print_error=False, exit_on_error=False)
    verb, *rest = words
    absent = [word for word in rest if word.startswith("runs/") and not (folder / word).exists()]
    asks_for_more = {"--dataset", "--recipe", "--processes", "--device"} & set(words)
    if verb in QUICK and not asks_for_more and (verb == "train" or not absent):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert not ended.value.code, f"maxmincaps {' '.join(words)}"


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
    words = BLOCK.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", words)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_first_page_links_every_other():
    linked = set(re.findall(r"\]\(([\w-]+\.md)", (ROOT / "docs" / "index.md").read_text()))
    assert linked == {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}


def test_every_page_stands_in_the_navigation():
    navigation = re.findall(r'"([\w-]+\.md)"', (ROOT / "zensical.toml").read_text())
    assert sorted(navigation) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))
