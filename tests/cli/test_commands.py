"""The command as a user meets it: what it prints, how it ends, what it leaves alone."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch

from maxmincaps import NORMALIZATIONS, Run, fit
from maxmincaps.benchmark import compare
from maxmincaps.cli import train
from maxmincaps.recipe import NAMED, Recipe
from maxmincaps.training.run import runs_under
from maxmincaps.training.schema import Divergence
from tests.conftest import TINY

TINY_FLAGS = [
    word
    for name, value in TINY.items()
    for word in (
        f"--{name.replace('_', '-')}",
        *(str(each) for each in (value if isinstance(value, tuple) else [value])),
    )
]


def test_help_and_a_mistyped_verb_answer_without_torch():
    """Each in a process of its own, as a user calls it."""
    calls = "import sys, maxmincaps.cli as cli\ntry: cli.main(%r)\nexcept SystemExit: sys.exit('torch' in sys.modules)"
    for words in (["--help"], ["--version"], ["data", "--help"], ["tran"], ["data", "gte"]):
        done = subprocess.run([sys.executable, "-c", calls % words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        [sys.executable, "-m", "maxmincaps", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert all(verb in shown for verb in ("train", "evaluate", "predict", "runs", "verify", "data", "study"))


def test_the_quickstart_trains_both_normalizations_and_ends_with_a_page(command, tmp_path, monkeypatch):
    sizes = {name: value for name, value in TINY.items() if name not in ("epochs", "batch_size")}
    monkeypatch.setattr(
        train, "fit", lambda recipe, folder, **named: fit(recipe.with_changes(**sizes), folder, **named)
    )
    code, shown = command("quickstart", "--out", tmp_path / "quick", "--epochs", 1)
    assert (code, (tmp_path / "quick" / "report" / "index.html").is_file()) == (0, True), shown
    assert {record.recipe.normalization for record in runs_under(tmp_path / "quick")} == {"max-min", "softmax"}


def test_bench_prints_its_ratios_and_keeps_them_with_a_figure(command, tmp_path, monkeypatch):
    def timed(case, threads, *, profile=False):
        return {} if profile else {"step_ms": 6.0 if case.contestant == "textbook" else 2.0, "peak_mb": 1.0}

    monkeypatch.setattr(compare, "_in_own_process", timed)
    code, shown = command("bench", "--quick", "--rounds", 1, "--out", tmp_path / "bench.json")
    assert (code, "3.00×" in shown) == (0, True), shown
    assert json.loads((tmp_path / "bench.json").read_text())["ratios"][0]["median"] == 3
    assert (tmp_path / "bench.png").is_file()


def test_where_a_pipe_has_no_letters_for_bars_the_answer_comes_without_them(seven):
    words = [sys.executable, "-m", "maxmincaps", "predict", str(seven)]
    shown = subprocess.run(words, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "cp1252"})
    assert b"seven.png  is  7" in shown.stdout


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("train", "The same with Softmax on MNIST: maxmincaps train --dataset mnist --normalization softmax."),
        ("predict", "resized to what the network takes"),
        ("export", "ONNX and torch programs take any number of images"),
    ],
)
def test_the_help_of_a_command_has_more_than_its_line_in_the_list(command, verb, expected):
    _, shown = command(verb, "--help")
    assert expected in shown
    assert "--empty-" not in shown


def test_every_setting_of_a_recipe_is_a_flag_with_its_help(command):
    _, shown = command("train", "--help")
    for name, field in Recipe.model_fields.items():
        assert f"--{name.replace('_', '-')}" in shown
        assert field.description, name
    assert "Routing iterations (r in the paper)" in shown


def test_train_evaluate_runs_and_verify_tell_one_story(command, tmp_path):
    folder = tmp_path / "runs" / "one"
    code, shown = command("train", *TINY_FLAGS, "--normalization", "softmax", "--out", folder)
    assert code == 0
    assert "softmax" in shown
    result = Run(folder).result
    assert f"{100 * result.final_test_accuracy:.2f} %" in shown
    assert command("verify", folder)[0] == 0
    _, shown = command("evaluate", folder, "--weights", "last")
    assert f"{100 * result.final_test_accuracy:.2f} % of 1000 test images" in shown
    assert "softmax" in command("runs", tmp_path / "runs")[1]
    _, shown = command("runs", tmp_path / "runs", "--sql", "select epochs + 40 from runs where status = 'complete'")
    assert "42" in shown
    _, shown = command("runs", tmp_path / "runs", "--sql", "select * from runs")
    assert re.search(r"normalization\W+softmax", shown), "too wide for a table: a line for each value"


def test_one_epoch_of_one_step_is_printed_in_the_singular_and_every_percentage_in_one_form(command, tiny, tmp_path):
    (tmp_path / "r.json").write_text(tiny(epochs=1, train_images=50).to_json())
    folder = tmp_path / "run"
    shown = [command("train", "--recipe", tmp_path / "r.json", "--out", folder)[1]]
    shown += [command("verify", folder)[1], str(Run(folder))]
    assert "1 epoch of 1 step" in shown[0]
    for words in shown:
        assert " 1 epoch" in words
        assert "1 epochs" not in words
        assert re.search(r"\d %", words)
        assert not re.search(r"\d%", words)


def test_a_recipe_file_gives_settings_and_flags_come_on_top(command, tmp_path):
    (tmp_path / "r.toml").write_text('normalization = "softmax"\nepochs = 7\n')
    code, _ = command("train", "--recipe", tmp_path / "r.toml", *TINY_FLAGS, "--out", tmp_path / "run")
    assert code == 0
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert (recipe["normalization"], recipe["epochs"]) == ("softmax", 2)


def test_the_recipes_of_the_package_are_listed_shown_and_trained_by_name(command, tmp_path):
    _, listed = command("recipe")
    for name, path in NAMED.items():
        assert f" {name} " in listed
        _, shown = command("recipe", name)
        assert all(word in shown for word in ("# Claim ", "# Cost ", "# Command ")), path
        assert Recipe.from_file(name)
    code, _ = command("train", "--recipe", "paper", *TINY_FLAGS, "--out", tmp_path / "run")
    assert code == 0
    assert Recipe.from_file(tmp_path / "run" / "recipe.json").vote_sigma == 0.1


def test_the_default_recipe_is_what_no_setting_means():
    assert Recipe.from_file("default") == Recipe()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train", "--normalization", "maxmn"], "no normalization is called 'maxmn'; there are softmax, max-min"),
        (["train", "--dataset", "mnits"], "no dataset is called 'mnits'; there are mnist"),
        (["train", "--iterations", "-1"], "iterations should be greater than or equal to 1, found '-1'"),
        (["train", "--epoch", "3"], "did you mean --epochs?"),
        (["train", "--lr", "3"], "did you mean --learning-rate?"),
        (["export", "run", "--format", "onnx"], "did you mean --to?"),
        (["train", "--colour-of-the-sky", "blue"], "no option is called --colour-of-the-sky; see maxmincaps train"),
        (["runs", "--import", "no_such_module"], "no_such_module: cannot be imported"),
        (["runs", "--import"], "--import: expected the name of a module"),
        (["train", "--precision", "fp8"], "should be 'fp32' or 'bf16'"),
        (["train", "--margin-low", "0.95"], "margin_low (0.95) must not exceed margin_high (0.9)"),
        (["train", "--learning-rate", "1e-7"], "learning_rate (1e-07) must not be below min_learning_rate (1e-06)"),
        (["train", "--high", "0.5", "--normalization", "softmax"], "no 'high' to set; it has no settings"),
        (["train", "--recipe", "nowhere.json"], "nowhere.json: there is no such recipe"),
        (["train", "--recipe", "papr"], "papr: a recipe is a .json or a .toml file, or one of"),
        (["quickstart", "--epochs", "0"], "quickstart: epochs should be greater than or equal to 1, found 0"),
        (["quickstart", "--seed", "-1"], "quickstart: seed should be greater than or equal to 0, found -1"),
        (["bench", "--rounds", "0"], 'Invalid value "0" for --rounds. Must be >= 1.'),
        (["bench", "--threads", "-1"], 'Invalid value "-1" for --threads. Must be >= 1.'),
        (["look", "rows", "run", "--count", "-1"], 'Invalid value "-1" for --count. Must be >= 1.'),
        (["study", "run", "datasets", "--workers", "0"], 'Invalid value "0" for --workers. Must be >= 1.'),
        (["recipe", "papr"], "no recipe is called 'papr'; there are"),
        (["train", "--device", "abacus"], "device 'abacus' cannot be used here"),
        (["train", "--device", "meta"], "device 'meta' cannot be used here"),
        (["study", "run", "datasets", "--seeds", "0"], 'Invalid value "0" for --seeds. Must be >= 1.'),
        (["verify", "."], "is not a run folder: it has no recipe.json"),
        (["evaluate", "nowhere"], "nowhere is not a run folder: there is no such folder"),
        (["predict", "."], ".: expected image files"),
        (["app", "nowhere"], "nowhere: there is no such folder"),
        (["runs", "."], "there is no run below it; `maxmincaps train`"),
        (["predict"], "maxmincaps: predict: expected IMAGES, found nothing; see maxmincaps predict --help"),
        (["study", "run"], "maxmincaps: study run: expected NAME, found nothing; see maxmincaps study run --help"),
        (["train", "--epochs"], "--epochs requires an argument"),
        (["fly"], "no command is called 'fly'; there are train, quickstart, recipe"),
        (["tran"], "no command is called 'tran'; did you mean train?"),
        (["study", "rnu"], "no command is called 'rnu'; did you mean run?"),
    ],
)
def test_wrong_input_is_one_clear_line_and_exit_code_two(command, tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    code, shown = command(*words)
    assert code == 2
    assert expected in shown
    assert "Traceback" not in shown
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_a_normalization_of_ones_own_is_used_after_an_explicit_import(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_norms.py").write_text(
        "from maxmincaps import NORMALIZATIONS, Normalization\n"
        "NORMALIZATIONS['cubed'] = Normalization(lambda logits: logits**3)\n"
    )
    train = ["train", *TINY_FLAGS, "--normalization", "cubed", "--out", "run"]
    try:
        assert command(*train)[0] == 2, "nothing of the current folder is imported by itself"
        assert command(*train, "--import", "my_norms")[0] == 0
        del NORMALIZATIONS["cubed"]
        code, shown = command("evaluate", "run", "--import=my_norms.py")
        assert code == 0, shown
    finally:
        NORMALIZATIONS.pop("cubed", None)
        sys.modules.pop("my_norms", None)


def test_an_unknown_setting_in_a_recipe_lists_the_right_ones(command, tmp_path):
    (tmp_path / "r.json").write_text('{"epoch": 3}')
    code, shown = command("train", "--recipe", tmp_path / "r.json")
    assert code == 2
    assert "r.json: no setting is called 'epoch'; there are dataset" in shown


def test_a_finished_run_is_called_finished_and_too_few_steps_too_few(command, tmp_path):
    settings = [f"--{name}={value}" for name, value in (("conv-channels", 4), ("types", 2), ("train-images", 60))]
    words = ["train", "--out", tmp_path / "run", "--epochs", 1, "--test-images", 20, *settings]
    assert "1 step, fewer than the 50 of warm-up: use more epochs" in command(*words)[1]
    assert "was finished before; nothing was trained" in command(*words)[1]


def test_resume_takes_the_recipe_of_the_run(command, run):
    code, shown = command("train", "--out", run, "--resume")
    assert code == 0
    code, shown = command("train", "--out", run, "--resume", "--batch-size", "9")
    assert code == 2
    assert "batch_size" in shown


def test_there_must_be_a_run_to_resume(command, tmp_path):
    code, shown = command("train", "--out", tmp_path / "frist", "--resume")
    assert (code, "frist: there is no run to resume" in shown) == (2, True)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("verb", "advice"), [("train", "my run' --resume"), ("quickstart", "the same command continues")]
)
def test_ctrl_c_ends_with_one_line_on_how_to_continue(command, tmp_path, monkeypatch, verb, advice):
    def stopped(recipe, folder, **_):
        Run(folder).folder.mkdir(parents=True)
        Run(folder).write("recipe.json", recipe.to_json())
        raise KeyboardInterrupt

    monkeypatch.setattr("maxmincaps.cli.train.fit", stopped)
    code, shown = command(verb, "--out", tmp_path / "my run")
    assert code == 130
    assert "maxmincaps: stopped, nothing is lost; " in shown
    assert shown.endswith(advice)


def test_ctrl_c_before_a_run_began_does_not_advise_to_resume_it(command, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("maxmincaps.cli.train.fit", stopped)
    code, shown = command("train", "--out", tmp_path / "run")
    assert (code, shown) == (130, "maxmincaps: stopped before the run began; the same command starts it")


on_what_a_run_lacks = pytest.mark.parametrize(
    ("words", "lacks"),
    [
        (["evaluate"], "best.safetensors"),
        (["predict", "seven.png", "--run"], "best.safetensors"),
        (["verify"], "result.json"),
        (["export", "--to", "run"], "result.json"),
        (["look", "evolution"], "trace.safetensors"),
        (["look", "rows"], "trace.safetensors"),
        (["look", "outputs"], "lengths.safetensors"),
        (["look", "tuning"], "lengths.safetensors"),
        (["look", "misclassified"], "lengths.safetensors"),
        (["app"], "best.safetensors"),
        (["app", "--weights", "last"], "last.safetensors"),
    ],
)


@pytest.fixture
def begun(run, seven):
    """A run that has made no epoch yet."""
    folder = seven.parent / "begun"
    folder.mkdir()
    for name in ("recipe.json", "data.json", "environment.json"):
        (folder / name).write_bytes((run / name).read_bytes())
    return Run(folder)


@pytest.mark.usefixtures("begun")
@on_what_a_run_lacks
def test_every_command_reports_an_unfinished_run_and_how_to_continue_it(command, words, lacks):
    code, shown = command(*words, "begun")
    assert code == 2
    again = "`maxmincaps train --out begun --resume` continues it"
    assert f"begun: the run is unfinished (0 of 2 epochs) and has no {lacks} yet; {again}" in shown


@on_what_a_run_lacks
def test_every_command_reports_where_a_diverged_run_diverged(command, begun, words, lacks):
    begun.write("diverged.json", Divergence(message="the loss is not finite at epoch 1, step 3 (loss nan)"))
    code, shown = command(*words, "begun")
    assert code == 2
    message = f"the run diverged (the loss is not finite at epoch 1, step 3 (loss nan)) and has no {lacks}"
    assert shown == f"maxmincaps: begun: {message}"


def test_a_diverged_run_is_listed_as_diverged_and_is_not_called_unfinished_by_train(command, begun):
    begun.write("diverged.json", Divergence(message="the loss is not finite at epoch 1, step 3 (loss nan)"))
    assert "diverged" in command("runs", ".")[1]
    assert str(begun).endswith(", diverged: 0 of 2 epochs")
    code, shown = command("train", "--recipe", "begun/recipe.json", "--out", "begun")
    assert (code, "the run diverged (the loss" in shown) == (2, True)


def test_the_error_of_a_damaged_run_names_the_file(command, run, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "lengths.safetensors").write_bytes((copy / "lengths.safetensors").read_bytes()[:100])
    code, shown = command("verify", copy)
    assert code == 2
    assert "lengths.safetensors: is not a complete safetensors file" in shown
    (copy / "recipe.json").write_text("{")
    code, shown = command("verify", copy)
    assert code == 2
    assert "recipe.json is not JSON" in shown


def test_nothing_that_a_user_hands_over_is_unpickled(command, run, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    torch.save({"a": torch.ones(1)}, copy / "best.safetensors")
    code, shown = command("evaluate", copy)
    assert code == 2
    assert "best.safetensors: is not a complete safetensors file" in shown
