"""A trained network as a program of plain torch operators, with a free batch axis."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from maxmincaps.capsules.multipliers import fold_multipliers
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.shapes import Images

OUTPUTS = ("lengths", "poses", "reconstruction")


class Answers(nn.Module):
    """What an exported network gives: a tensor for each of `outputs`, from pixels in 0…1 to the last couplings.

    `prepare` is what the recipe does to pixels before the network sees them, such as whitening.
    """

    def __init__(self, network: CapsNet, couplings: bool = False, prepare: Callable[[Images], Images] | None = None):
        super().__init__()
        # Users of an exported program see the weights themselves.
        self.network, self.prepare = fold_multipliers(deepcopy(network)), prepare
        self.outputs = (*OUTPUTS, "couplings") if couplings else OUTPUTS

    def forward(self, images: Images) -> tuple[Tensor, ...]:
        """Classify, reconstruct, and tell how the last iteration routed if that was asked for."""
        seen = images if self.prepare is None else self.prepare(images)
        *_, last = self.network.digits.steps(self.network.parts(seen))
        answers = {**self.network.output(last.poses)._asdict(), "couplings": last.couplings}
        return tuple(answers[name] for name in self.outputs)


def program_of(answers: Answers) -> ExportedProgram:
    """Run the network's operators, for any number of images."""
    # An example of one image would make the batch axis a constant.
    example = torch.zeros(2, *answers.network.image_shape)
    with torch.no_grad():  # or the program would keep where routing turns gradients on and off
        return torch.export.export(answers.eval(), (example,), dynamic_shapes=({0: Dim("batch")},))


def write_program(answers: Answers, path: Path, notes: dict[str, str]) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """Write an ExportedProgram with the notes as its extra files; give what the file answers, read again."""
    torch.export.save(program_of(answers), path, extra_files=notes)
    program = torch.export.load(path).module()
    return lambda images: tuple(program(images))
