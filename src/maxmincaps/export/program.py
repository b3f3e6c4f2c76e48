"""Export the network of a run as an ONNX file or a torch program, checked against torch."""

import io
import json
import logging
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from maxmincaps.capsules.multipliers import fold_multipliers
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.routing import RoutingStep
from maxmincaps.capsules.shapes import Images
from maxmincaps.data.augment import for_testing, whiten
from maxmincaps.data.batches import as_float
from maxmincaps.data.images import fixed_subset
from maxmincaps.errors import InputError, check_name, import_extra, one_line
from maxmincaps.export.card import shareable_recipe
from maxmincaps.files import make_directory, reporting_write_errors, write_atomic
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.evaluate import images_seen
from maxmincaps.training.run import Run

OUTPUTS = ("lengths", "poses", "reconstruction")
WELL_CONDITIONED_RANGE = 0.01
"""Couplings of a child whose logits have a smaller range are compared less strictly: see `coupling_tolerances`."""
CHECKED_IMAGES = 100
RunFile = Callable[[Tensor], tuple[Tensor, ...]]
Written = tuple[bytes, RunFile]  # the bytes of an exported file, and a function that runs them


class ExportedNetwork(nn.Module):
    """The function that is exported: from pixels in 0…1 to one tensor for each of `outputs`.

    Args:
        network: The trained network.
        couplings: Whether the couplings of the last iteration, (batch, child, parent), are an output.
        prepare: What the recipe does to pixels before the network sees them, such as whitening.
    """

    def __init__(self, network: CapsNet, couplings: bool, prepare: Callable[[Images], Images] | None) -> None:
        super().__init__()
        # Users of an exported program see the weights themselves.
        self.network, self.prepare = fold_multipliers(deepcopy(network)), prepare
        self.outputs = (*OUTPUTS, "couplings") if couplings else OUTPUTS

    def forward(self, images: Images) -> tuple[Tensor, ...]:
        """Return the outputs in their order."""
        last = self._last_step(images)
        answers = {**self.network.output(last.poses)._asdict(), "couplings": last.couplings}
        return tuple(answers[name] for name in self.outputs)

    @torch.no_grad()
    def logit_ranges(self, images: Images) -> Tensor:
        """Return the range of each child's logits over its parents at the last iteration, (batch, child)."""
        logits = self._last_step(images).logits
        return logits.amax(dim=-1) - logits.amin(dim=-1)

    def _last_step(self, images: Images) -> RoutingStep:
        *_, last = self.network.digits.steps(self.network.parts(self.prepare(images) if self.prepare else images))
        return last


def program_of(network: ExportedNetwork) -> ExportedProgram:
    """Trace the network for any number of images."""
    # An example of one image would make the batch axis a constant.
    example = torch.zeros(2, *network.network.image_shape)
    with torch.no_grad():  # otherwise the program would contain the places where routing switches gradients
        program = torch.export.export(network.eval(), (example,), dynamic_shapes=({0: Dim("batch")},))
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.meta.pop("stack_trace", None)  # it has the paths of this machine, and a user's name in them
    return program


def to_program(network: ExportedNetwork, notes: dict[str, str]) -> Written:
    """Return an ExportedProgram with `notes` as extra files."""
    file = io.BytesIO()  # torch ends the process if it writes to a full disk itself
    torch.export.save(program_of(network), file, extra_files=notes)
    program = torch.export.load(io.BytesIO(file.getvalue())).module()
    return file.getvalue(), lambda images: tuple(program(images))


def to_onnx(network: ExportedNetwork, notes: dict[str, str]) -> Written:
    """Return an ONNX file whose metadata are `notes`. It runs without torch and without this package."""
    for module in ("onnx", "onnxscript"):
        import_extra("export", module)
    runtime = import_extra("export", "onnxruntime")
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)  # it warns of a missing torchvision
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
            program = torch.onnx.export(
                program_of(network),
                input_names=["images"],
                output_names=list(network.outputs),
                dynamic_shapes=({0: "batch"},),
                verbose=False,
            )
    finally:
        registration.setLevel(level)
    assert program is not None
    program.model.metadata_props.update(notes)
    content = program.model_proto.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return content, lambda images: tuple(map(torch.from_numpy, session.run(None, {"images": images.numpy()})))


WRITERS = {"onnx": (".onnx", to_onnx), "torch": (".pt2", to_program)}


class Exported(NamedTuple):
    """A file that was written, the largest difference of each output to torch, and the images of the comparison."""

    path: Path
    differences: dict[str, float]
    images: int
    checked_on: str


def export_run(
    folder: Path | str,
    to: Literal["onnx", "torch"] = "onnx",
    out: Path | str | None = None,
    *,
    couplings: bool = False,
    weights: Literal["best", "last"] = "best",
    dataset: Path | str | None = None,
    tolerance: float = 1e-4,
    overwrite: bool = False,
) -> Exported:
    """Write a run's network as ONNX or as a torch program.

    The file takes any number of images with pixels in 0…1, (batch, channel, height, width). It returns lengths
    (batch, class), poses (batch, class, pose) and the reconstruction. It is written only if it agrees with torch within
    the tolerance; for couplings see `coupling_tolerances`. `dataset` states where the run's images are now.
    """
    run = Run(Path(folder))
    suffix, write = WRITERS[check_name(to, WRITERS, "format of export")]
    path = Path(out) if out else Path(run.folder.resolve().name + suffix)
    if path.suffix != suffix:
        raise InputError(f"{path}: expected a file whose name ends in {suffix}")
    if path.exists() and not overwrite:
        raise InputError(f"{path}: exists already; choose another file with --out, or replace it with --overwrite")
    network = ExportedNetwork(load_network(folder, weights), couplings, whiten if run.recipe.whiten else None)
    images, checked_on = _images_to_check(run, dataset)
    notes = {"classes": json.dumps(run.data.classes), "recipe": shareable_recipe(run).to_json(), "weights": weights}
    content, run_file = write(network, {**notes, "fingerprint": run.recipe.fingerprint()})
    differences = dict.fromkeys(network.outputs, 0.0)
    for batch in (images[:1], images):  # the batch axis is free
        for name, difference in _differences(run_file, network, batch, tolerance, path).items():
            differences[name] = max(differences[name], difference)
    with reporting_write_errors(path):
        make_directory(path.parent)
        write_atomic(path, content)
    return Exported(path, differences, len(images), checked_on)


@torch.no_grad()
def _differences(
    run_file: RunFile, network: ExportedNetwork, images: Images, tolerance: float, path: Path
) -> dict[str, float]:
    """Return the largest difference of each output to torch's; refuse those above the tolerance, and NaN."""
    largest = {}
    for name, ours, theirs in zip(network.outputs, network(images), run_file(images), strict=True):
        difference, allowed = (ours - theirs).abs(), torch.tensor(tolerance)
        if name == "couplings":
            allowed = coupling_tolerances(network.logit_ranges(images), tolerance)[..., None]
        largest[name] = difference.max().item()
        if not (difference <= allowed).all():  # false for NaN too
            raise InputError(
                f"{path}: was not written, as {name} differ by {largest[name]:.1e} from torch's on {len(images)} "
                f"images (accepted: {tolerance:.0e}; --tolerance accepts more)"
            )
    return largest


def coupling_tolerances(ranges: Tensor, tolerance: float) -> Tensor:
    """Return the accepted difference of each child's couplings.

    Max-Min divides by the range of a child's logits. A rounding error in the logits is multiplied by 1 / range, so the
    couplings of a child with nearly equal logits are ill-conditioned, though its share in every pose is not affected.
    The accepted difference is `tolerance` where the range (batch, child) is at least `WELL_CONDITIONED_RANGE`, and
    grows as 1 / range below it: logits must agree within `tolerance · WELL_CONDITIONED_RANGE`.
    """
    return tolerance * (WELL_CONDITIONED_RANGE / ranges.clamp(min=1e-30)).clamp(min=1)


def _images_to_check(run: Run, dataset: Path | str | None) -> tuple[Images, str]:
    """Return some test images at the network's size, before whitening; random ones if the run's images are missing."""
    try:
        test = images_seen(run, dataset).test
    except InputError as error:
        noise = torch.rand(CHECKED_IMAGES, *run.data.image_shape, generator=torch.Generator().manual_seed(0))
        return noise, f"random images, as the test images cannot be used ({one_line(error)})"
    prepare = for_testing(run.recipe.with_changes(whiten=False))
    return prepare(as_float(fixed_subset(test, CHECKED_IMAGES).images)), "test images"
