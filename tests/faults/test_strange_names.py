"""Names from untrusted files are printed as plain text: on the terminal, in figures, on pages and in file names."""

from pathlib import Path

import pytest

from maxmincaps.cli import main
from tests.data.test_fuzz import picture
from tests.faults.own import SMALL, write_own
from tests.faults.readings import run_command

pytestmark = pytest.mark.filterwarnings("ignore")  # of decoders, about what they can read all the same
NAMES = ["<script>alert(1)</script>", "[/bold][red]", "\x1b[2J\x1b]0;title\x07", r"$\frac{1$", "../../../up"]


def test_names_in_files_of_unknown_origin_are_treated_as_plain_text(tmp_path, monkeypatch, capsys, scale, tally):
    monkeypatch.chdir(tmp_path)
    dataset = write_own(tmp_path / r"[bold]<img src=x>$\frac$.npz", images=50, names=NAMES)
    Path("x[y].png").write_bytes(picture("PNG"))
    sizes = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)]
    for folder, normalization in (("runs/[a]", "max-min"), ("runs/[b]", "softmax")):
        flags = ["--dataset", dataset, "--decoder", 8, "--epochs", 1, "--threads", 1, *sizes]
        run_command("train", "--out", folder, "--normalization", normalization, *flags)
    run = "runs/[a]"
    before = set(tmp_path.parent.iterdir())
    commands = [
        *(["runs", "runs"], ["verify", run], ["evaluate", run], ["predict", "x[y].png", "--run", run]),
        *(["look", name, run] for name in ("tuning", "outputs", "misclassified", "evolution", "rows", "vote")),
        *(
            ["data", "show", dataset],
            ["data", "show", dataset, "--statistics"],
            ["export", run, "--to", "hub"],
            ["export", run, "--to", "record"],
        ),
        *scale([], [["report", "--runs", "runs"], ["export", run, "--to", "torch"]]),
    ]
    for words in commands:
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        printed = capsys.readouterr()
        assert not end.value.code, (words, printed.err)
        assert "\x1b" not in printed.out + printed.err
    for page in tmp_path.rglob("index.html"):
        assert "<img src=x>" not in page.read_text()
        assert "<script>alert" not in page.read_text()
    assert set(tmp_path.parent.iterdir()) == before  # and no name led out of the folder
    tally("names", commands=len(commands), taken_for_more_than_words=0)
