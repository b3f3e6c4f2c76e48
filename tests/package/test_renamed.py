"""Public names of earlier versions still work, with a warning."""

import pytest

import maxmincaps
from maxmincaps import NORMALIZATIONS, CombinedObserver, Observer, Recipe, RoutedCapsules, Run


@pytest.mark.parametrize(("old", "new"), [("Record", Run), ("Together", CombinedObserver)])
def test_a_renamed_class_warns(old, new):
    with pytest.warns(DeprecationWarning, match=new.__name__):
        assert getattr(maxmincaps, old) is new
    assert old not in maxmincaps.__all__


def test_renamed_methods_warn():
    with pytest.warns(DeprecationWarning, match="with_changes"):
        assert Recipe().but(epochs=3) == Recipe(epochs=3)
    with pytest.warns(DeprecationWarning, match="with_settings"):
        assert NORMALIZATIONS["max-min"].having(start=0.5).start == 0.5
    with pytest.warns(DeprecationWarning, match="fan_in"):
        assert RoutedCapsules(4, 3, part_pose=2).terms == 8


def test_an_observer_with_the_old_name_of_should_stop_still_stops_a_run():
    with pytest.warns(DeprecationWarning, match="should_stop"):

        class Stop(Observer):
            def wants_to_stop(self):
                return True

    assert CombinedObserver(Observer(), Stop()).should_stop()
