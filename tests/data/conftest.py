"""Fixtures of the data tests: a cache of their own, so that the user's is never changed."""

import os

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    torch.set_num_threads(1)  # small tensors, and several tests at once: threads would only wait for each other
    before = os.environ.get("MAXMINCAPS_CACHE")
    os.environ["MAXMINCAPS_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["MAXMINCAPS_CACHE"]
    else:
        os.environ["MAXMINCAPS_CACHE"] = before


@pytest.fixture
def published(tmp_path):
    """A folder for published files."""
    folder = tmp_path / "published"
    folder.mkdir()
    return folder
