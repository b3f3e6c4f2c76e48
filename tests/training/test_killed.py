"""A real process, killed with SIGKILL at random moments, resumed until it is done: the same bits at the end."""

import random
import subprocess
import sys
import time

from maxmincaps import fit
from maxmincaps.training.record import Record
from tests.training.bits import equal_bits

TRAIN = """
import sys
from maxmincaps import fit, Recipe
fit(Recipe.from_file(sys.argv[1]), sys.argv[2], resume=True)
"""


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(tiny, tmp_path):
    recipe = tiny(epochs=6, checkpoint_seconds=0.0)
    undisturbed = fit(recipe, tmp_path / "undisturbed")
    (tmp_path / "recipe.json").write_text(recipe.to_json())
    record = Record(tmp_path / "killed")
    dice, kills = random.Random(0), 0
    while not record.complete:
        process = subprocess.Popen([sys.executable, "-c", TRAIN, tmp_path / "recipe.json", record.folder])
        if kills < 4:
            while process.poll() is None and not (record.folder / "checkpoint.safetensors").exists():
                time.sleep(0.01)
            time.sleep(dice.uniform(0, 0.4))
            process.kill()
            kills += process.wait() == -9
        else:
            assert process.wait() == 0
    assert kills
    for which in ("best", "last"):
        assert equal_bits(record, undisturbed, which)
    assert len(record.history) == 6
    assert record.result["final_test_accuracy"] == undisturbed.result["final_test_accuracy"]
