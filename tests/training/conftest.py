"""Fixtures of the training tests: a run that was never stopped."""

import pytest

from maxmincaps import Recipe, fit
from tests.conftest import TINY


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A run that was never stopped; tests must not change it."""
    return fit(Recipe(**TINY), tmp_path_factory.mktemp("runs") / "whole")
