"""Exported networks answer as they did in torch, for any number of images, and are not kept if they do not."""

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
import pytest
import torch

from maxmincaps import NORMALIZATIONS, InputError, Run, fit, load, load_network
from maxmincaps.data.batches import as_float
from maxmincaps.export import program
from maxmincaps.export.card import save_for_hub
from maxmincaps.export.program import coupling_tolerances, export_run
from maxmincaps.training.run import SHIPPED_RUN

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def digits():
    return as_float(load("mnist-5k", "test").images[:7])


@pytest.fixture(scope="module")
def onnx_file(run, tmp_path_factory):
    return export_run(run, "onnx", tmp_path_factory.mktemp("onnx") / "net.onnx", couplings=True)


def answers_of(network, images):
    with torch.no_grad():
        output = network(images)
        *_, last = network.digits.steps(network.parts(images))
    return [output.lengths, output.poses, output.reconstruction, last.couplings]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_an_onnx_file_answers_as_torch_does_for_any_number_of_images(run, onnx_file, digits, count):
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_file.path, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["lengths", "poses", "reconstruction", "couplings"]
    found = session.run(None, {"images": digits[:count].numpy()})
    for ours, theirs in zip(answers_of(load_network(run), digits[:count]), found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_an_onnx_file_is_one_file_that_knows_its_classes_and_its_recipe(run, onnx_file):
    import onnx

    assert [path.name for path in onnx_file.path.parent.iterdir()] == ["net.onnx"]
    notes = {entry.key: entry.value for entry in onnx.load(onnx_file.path).metadata_props}
    assert json.loads(notes["classes"]) == list("0123456789")
    assert json.loads(notes["recipe"]) == json.loads(Run(run).recipe.to_json())


def test_no_export_contains_the_path_of_the_users_images(tiny, tmp_path):
    private = tmp_path / "a private place"
    private.mkdir()
    pixels, labels = np.zeros((20, 28, 28), np.uint8), np.arange(20) % 2
    np.savez(private / "own.npz", x_train=pixels, y_train=labels, x_test=pixels, y_test=labels)
    changes = {"dataset": str(private / "own.npz"), "epochs": 1, "train_images": None, "test_images": None}
    source = fit(tiny(**changes), private / "earlier").folder
    run = fit(tiny(**changes, init_from=str(source)), tmp_path / "run").folder
    written = [export_run(run, "onnx", tmp_path / "net.onnx").path, save_for_hub(run, tmp_path / "hub") / "README.md"]
    for file in written:
        assert b"the user's own images" in file.read_bytes()
        assert b"a private place" not in file.read_bytes()


def test_a_torch_program_answers_as_the_network_does(run, digits, tmp_path, command):
    code, printed = command("export", run, "--to", "torch", "--weights", "last", "--out", tmp_path / "net.pt2")
    assert (code, "largest difference to torch on 100 test images: " in printed) == (0, True)
    assert "(last weights)" in printed
    found = torch.export.load(tmp_path / "net.pt2").module()(digits)
    for ours, theirs in zip(answers_of(load_network(run, "last"), digits)[:3], found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_whitening_is_part_of_the_exported_network(tiny, digits, tmp_path):
    from maxmincaps.data.augment import whiten

    whitened = fit(tiny(whiten=True, epochs=1), tmp_path / "run").folder
    export_run(whitened, "torch", tmp_path / "net.pt2")
    lengths = torch.export.load(tmp_path / "net.pt2").module()(digits)[0]
    torch.testing.assert_close(lengths, answers_of(load_network(whitened), whiten(digits))[0], atol=1e-5, rtol=0)


def test_a_file_that_answers_otherwise_is_not_kept(run, tmp_path, monkeypatch, command):
    def wrong(network, notes):
        return b"a file", lambda images: tuple(answer + 2e-4 for answer in network(images))

    monkeypatch.setitem(program.WRITERS, "onnx", (".onnx", wrong))
    (tmp_path / "net.onnx").write_bytes(b"an earlier one")
    words = ["export", run, "--out", tmp_path / "net.onnx", "--overwrite"]
    code, printed = command(*words)
    assert code == 2
    assert "differ by 2.0e-04" in printed
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("net.onnx", b"an earlier one")]
    assert command(*words, "--tolerance", "1e-3")[0] == 0
    assert (tmp_path / "net.onnx").read_bytes() == b"a file"


def test_an_existing_file_is_replaced_on_request_only(run, tmp_path, command):
    (tmp_path / "net.pt2").write_bytes(b"mine")
    code, printed = command("export", run, "--to", "torch", "--out", tmp_path / "net.pt2")
    assert (code, "--overwrite" in printed) == (2, True)
    assert (tmp_path / "net.pt2").read_bytes() == b"mine"


@pytest.mark.parametrize("scale", [1, 1e-3, 1e-6])
def test_couplings_are_compared_by_what_their_logits_allow(scale):
    """Max-Min divides by the range of the logits, so equal rounding errors of logits differ more after it."""
    logits = scale * torch.rand(100, 20, 10, generator=torch.Generator().manual_seed(0))
    ranges = logits.amax(-1) - logits.amin(-1)
    rounded = logits + 1e-7 * torch.rand_like(logits)
    couplings = [NORMALIZATIONS["max-min"].function(each) for each in (logits, rounded)]
    difference = (couplings[0] - couplings[1]).abs()
    assert (difference <= coupling_tolerances(ranges, 1e-4)[..., None]).all()


def test_the_couplings_of_the_network_that_comes_with_the_package_can_be_exported(tmp_path):
    done = export_run(SHIPPED_RUN, "torch", tmp_path / "net.pt2", couplings=True)
    assert done.differences["lengths"] < 1e-5


def test_exports_have_a_named_batch_axis_and_no_paths_of_this_machine(run, onnx_file, tmp_path):
    import onnx

    torch_file = export_run(run, "torch", tmp_path / "net.pt2").path
    for content in (onnx_file.path.read_bytes(), torch_file.read_bytes()):
        assert str(Path.cwd()).encode() not in content
        assert b"site-packages" not in content
    (images,) = onnx.load(onnx_file.path).graph.input
    assert images.type.tensor_type.shape.dim[0].dim_param == "batch"


def test_a_run_whose_images_are_not_here_is_checked_on_random_ones(run, tmp_path):
    copy = Run(shutil.copytree(run, tmp_path / "run"))
    copy.write("recipe.json", copy.recipe.with_changes(dataset="/nowhere/images.npz").to_json())
    assert "random images" in export_run(copy.folder, "torch", tmp_path / "net.pt2").checked_on


def test_a_wrong_name_and_a_missing_optional_part_are_reported(run, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"ends in \.onnx"):
        export_run(run, "onnx", tmp_path / "net.pt")
    with pytest.raises(InputError, match="no format of export is called 'coreml'"):
        export_run(run, "coreml")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"pip install -e '\.\[export\]'"):
        export_run(run, "onnx", tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_an_export_to_a_path_below_a_file_is_refused(run, tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InputError, match=r"net\.pt2: cannot be written"):
        export_run(run, "torch", tmp_path / "taken" / "net.pt2")


WITHOUT_TORCH = (
    "import sys, runpy; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def test_an_onnx_file_is_served_where_there_is_no_torch(onnx_file):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_TORCH, EXAMPLES / "serve_onnx.py", onnx_file.path, str(port)],
        stderr=subprocess.DEVNULL,
    )
    try:
        answers = _asked(port, [[[[0.5] * 28] * 28]] * 2, server)
    finally:
        server.terminate()
        server.wait()
    assert [sorted(answer) for answer in answers] == [list("0123456789")] * 2
    assert all(0 <= length < 1 for answer in answers for length in answer.values())


def _asked(port, images, server):
    directly = build_opener(ProxyHandler({}))
    while server.poll() is None:
        try:
            with directly.open(Request(f"http://127.0.0.1:{port}", json.dumps(images).encode())) as answer:
                return json.load(answer)
        except HTTPError:
            raise
        except URLError:  # it is not listening yet
            time.sleep(0.1)
    raise AssertionError("the server did not start")
