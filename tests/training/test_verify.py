"""A record whose files are unsound is refused in one line, not with a traceback, nor taken for sound."""

import pytest

from maxmincaps import InputError, fit
from maxmincaps.training.checkpoint import load_tensors, save_tensors
from maxmincaps.training.verify import verified


def test_predictions_that_are_not_one_for_each_label_do_not_pass_verification(tiny, tmp_path):
    record = fit(tiny(epochs=1), tmp_path / "run")
    path = record.folder / "lengths.safetensors"
    tensors, note = load_tensors(path)
    for kept in (5, 1):  # one prediction would be held against every label
        save_tensors(path, {**tensors, "predictions": tensors["predictions"][:kept]}, note)
        with pytest.raises(InputError, match=rf"lengths\.safetensors: expected .*, found .*\({kept},\)"):
            list(verified(record.folder))
