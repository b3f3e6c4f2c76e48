import pytest

from tests.conftest import TINY


@pytest.fixture
def small_trainings(monkeypatch):
    """Replace every training that a page starts by a small one: the tests check the commands, not the accuracy."""
    from maxmincaps.cli import train as verb
    from maxmincaps.training import fit as training

    small = {name: value for name, value in TINY.items() if name != "epochs"}

    def fit(recipe, folder, **arguments):
        return whole(recipe.with_changes(**small), folder, **arguments)

    whole = training.fit
    monkeypatch.setattr(training, "fit", fit)
    monkeypatch.setattr(verb, "fit", fit)
