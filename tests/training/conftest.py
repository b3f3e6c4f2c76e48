"""What the tests of training share: a run that was never stopped."""

import pytest

from maxmincaps import Recipe, fit
from tests.conftest import TINY


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A run that was never stopped; nobody writes into it."""
    return fit(Recipe(**TINY), tmp_path_factory.mktemp("runs") / "whole")
