import pytest

from maxmincaps import Recipe, fit
from maxmincaps.cli import main
from tests.conftest import TINY


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The folder of a tiny, finished run."""
    return fit(Recipe(**{**TINY, "epochs": 1}), tmp_path_factory.mktemp("runs") / "tiny").folder


@pytest.fixture
def command(capsys):
    """Call the command; give its exit code and what it printed, in one line."""

    def call(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        printed = capsys.readouterr()
        return ended.value.code or 0, " ".join((printed.out + printed.err).split())

    return call
