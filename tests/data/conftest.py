"""A cache of its own for the tests: what they fetch never touches the user's."""

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
