import pytest

from maxmincaps import Recipe, fit
from tests.conftest import TINY


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The folder of a tiny, finished run."""
    return fit(Recipe(**{**TINY, "epochs": 1}), tmp_path_factory.mktemp("runs") / "tiny").folder
