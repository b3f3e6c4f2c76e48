"""Convert a trained network to a program of plain torch operators, with a free batch axis."""

import io
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from maxmincaps.capsules.multipliers import fold_multipliers
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.shapes import Images

OUTPUTS = ("lengths", "poses", "reconstruction")
Outputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Written:
    """The bytes of an exported file, and a function that runs them."""

    content: bytes
    run: Callable[[Tensor], Outputs]


class ExportedNetwork(nn.Module):
    """The function that is exported: from pixels in 0…1 to one tensor for each of `outputs`.

    Args:
        network: The trained network.
        couplings: Whether the couplings of the last iteration, (batch, child, parent), are an output.
        prepare: What the recipe does to pixels before the network sees them, such as whitening.
    """

    def __init__(self, network: CapsNet, couplings: bool = False, prepare: Callable[[Images], Images] | None = None):
        super().__init__()
        # Users of an exported program see the weights themselves.
        self.network, self.prepare = fold_multipliers(deepcopy(network)), prepare
        self.outputs = (*OUTPUTS, "couplings") if couplings else OUTPUTS

    def forward(self, images: Images) -> Outputs:
        """Return the outputs in their order."""
        seen = images if self.prepare is None else self.prepare(images)
        *_, last = self.network.digits.steps(self.network.parts(seen))
        answers = {**self.network.output(last.poses)._asdict(), "couplings": last.couplings}
        return tuple(answers[name] for name in self.outputs)

    @torch.no_grad()
    def logit_ranges(self, images: Images) -> Tensor:
        """Return the range of each child's logits over its parents at the last iteration, (batch, child)."""
        seen = images if self.prepare is None else self.prepare(images)
        *_, last = self.network.digits.steps(self.network.parts(seen))
        return last.logits.amax(dim=-1) - last.logits.amin(dim=-1)


def program_of(answers: ExportedNetwork) -> ExportedProgram:
    """Trace the network for any number of images."""
    # An example of one image would make the batch axis a constant.
    example = torch.zeros(2, *answers.network.image_shape)
    with torch.no_grad():  # otherwise the program would contain the places where routing switches gradients
        program = torch.export.export(answers.eval(), (example,), dynamic_shapes=({0: Dim("batch")},))
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.meta.pop("stack_trace", None)  # it has the paths of this machine, and a user's name in them
    return program


def to_program(answers: ExportedNetwork, notes: dict[str, str]) -> Written:
    """Return the bytes of an ExportedProgram with `notes` as extra files, and a function that runs them."""
    file = io.BytesIO()  # torch ends the process if it writes to a full disk itself
    torch.export.save(program_of(answers), file, extra_files=notes)
    program = torch.export.load(io.BytesIO(file.getvalue())).module()
    return Written(file.getvalue(), lambda images: tuple(program(images)))
