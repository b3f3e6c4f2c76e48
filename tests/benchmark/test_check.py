import json

import pytest
import torch

from maxmincaps import InputError
from maxmincaps.benchmark import check
from maxmincaps.cli.bench import check as check_command

CPU = torch.device("cpu")
NUMERIC = ("normalizations", "routing and its gradients", "network, loss and gradients")


@pytest.fixture
def quick(monkeypatch):
    """Leave out the full-size training and timing."""
    monkeypatch.setattr(check, "_train", lambda *_: (True, "trained"))
    monkeypatch.setattr(check, "_time_step", lambda *_: (True, "timed"))


def test_values_and_gradients_on_a_cpu_agree_with_float64(quick):
    results = {result.name: result for result in check.run_checks(CPU)}
    assert all(results[name].passed for name in NUMERIC), results


def test_a_device_that_computes_something_else_is_found(quick, monkeypatch):
    exact = check.route
    monkeypatch.setattr(check, "route", lambda votes, name: exact(votes, name) * _wrong_in_fp32(votes))
    results = {result.name: result.passed for result in check.run_checks(CPU)}
    assert results.pop("routing and its gradients") is False
    assert all(results.values())


def _wrong_in_fp32(votes):
    return 1.01 if votes.dtype == torch.float32 else 1.0


def test_a_check_that_crashes_on_the_device_has_failed_and_the_others_go_on(quick, monkeypatch):
    def crash(*_):
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(check, "_network", crash)
    results = {result.name: result for result in check.run_checks(CPU)}
    assert results["network, loss and gradients"].passed is False
    assert "no kernel" in results["network, loss and gradients"].detail
    assert len(results) == 5


def test_what_is_missing_here_is_not_called_wrong(quick, monkeypatch):
    def missing(*_):
        raise InputError("this needs the optional part data")

    monkeypatch.setattr(check, "_train", missing)
    assert [result.passed for result in check.run_checks(CPU)] == [True, True, True, None, True]


def test_the_command_writes_a_report_and_fails_if_a_check_fails(quick, tmp_path, capsys, monkeypatch):
    report = tmp_path / "check.json"
    check_command(device="cpu", out=report)
    found = json.loads(report.read_text())
    assert found["environment"]["device"] == "cpu"
    assert [one["passed"] for one in found["checks"]] == [True] * 5
    assert "right" in capsys.readouterr().out
    monkeypatch.setattr(check, "_train", lambda *_: (False, "10.0% right"))
    with pytest.raises(SystemExit) as stopped:
        check_command(device="cpu", out=report)
    assert stopped.value.code == 1
    assert "wrong in training" in capsys.readouterr().out


def test_a_device_that_is_not_here_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot be used here"):
        check_command(device="cuda:99", out=tmp_path / "check.json")
