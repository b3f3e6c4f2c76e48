"""The chapter on the MNIST record: table 2, the images that it gets wrong, and what people say of them."""

from collections.abc import Sequence
from pathlib import Path

from jaxtyping import UInt8
from torch import Tensor

from maxmincaps.analysis.measures import has
from maxmincaps.analysis.poll_results import examples
from maxmincaps.analysis.vote import vote
from maxmincaps.analysis.voters import MODELS, models_a_b_c
from maxmincaps.errors import InputError
from maxmincaps.report import mistakes, tables
from maxmincaps.report.material import Material, Plate, absent, commands_for
from maxmincaps.report.poll import human_or_network, table_3
from maxmincaps.report.selection import matched_pairs
from maxmincaps.studies.study import title_of
from maxmincaps.training.responses import Responses, responses
from maxmincaps.training.run import Run, RunSummary
from maxmincaps.training.run_images import images_seen

GRID = "Above each image: its index in the test set, the prediction, and the true label. "


def mnist_record(material: Material) -> list[Plate]:
    """Tables 2 and 3, figures 9, 10 and A.1 to A.3."""
    runs = material.shown("mnist-record")
    voters = models_a_b_c(runs.rows)
    models = [responses(row.folder) for row in voters]
    voted = vote(models) if len(models) == 3 else None
    return [
        material.table(
            "Table 2",
            "Test errors of single networks and of votes, the paper's beside ours.",
            tables.table_2(runs),
            runs,
        ),
        *(_misclassified(material, voters, models, voted) if models else _stand_in(material)),
        *_people(material, voted, voters),
    ]


def _misclassified(
    material: Material, voters: Sequence[RunSummary], models: Sequence[Responses], voted: Responses | None
) -> list[Plate]:
    study = material.studies["misclassified"]
    command = commands_for(study, (row.scale for row in voters))
    told = {measure.measure: int(measure.value) for measure in study.paper}
    plates = []
    if voted:
        caption = (
            f"The {len(voted.wrong):,} images that the vote of three networks, with their final weights, gets wrong "
            f"(the paper's vote: {told['vote_misclassified']}). "
        )
        plates.append(_wrong_images(material, "figure-9", "Figure 9", caption, voted, command, voters))
    else:
        plates.append(
            absent("figure-9", "Figure 9", f"Needs three networks that vote; there are {len(models)}.", study)
        )
    for row, model in zip(voters, models, strict=True):
        number, letter = row.recipe.seed + 1, MODELS[row.recipe.seed]
        caption = (
            f"The {len(model.wrong):,} images that model {letter} (seed {row.recipe.seed}, final weights) gets wrong "
            f"(the paper's: {told[f'model_{letter.lower()}_misclassified']}). "
        )
        name, title = f"figure-a{number}", f"Figure A.{number}"
        plates.append(_wrong_images(material, name, title, caption, model, command, [row]))
    whose = "the vote" if voted else f"model {MODELS[voters[0].recipe.seed]}"
    caption = (
        f"How often {whose}, with final weights, takes a true class for another. Bold: right answers. Shades are of "
        "the errors alone."
    )
    confusion = mistakes.confusion(voted or models[0])
    rows = voters if voted else voters[:1]
    return [*plates, material.plate("confusion", "Confusion matrix", caption, confusion, command, rows)]


def _stand_in(material: Material) -> list[Plate]:
    """Show what a single network gets wrong while there is no MNIST record; it bears its dataset's name."""
    study = material.studies["misclassified"]
    words = "The images that the vote of three networks gets wrong, and those of each."
    plates = [absent("figure-9", "Figures 9, A.1 to A.3", words, study)]
    able = [row for row in material.rows if has(row, "lengths.safetensors")]
    for dataset, pair in list(matched_pairs(able).items())[:1]:
        name, row = list(pair.items())[-1]
        model, title = responses(row.folder), f"{title_of(dataset)}, one {name} network"
        caption = (
            f"The {len(model.wrong):,} of {len(model.labels):,} test images of {title_of(dataset)} that it gets wrong "
            "with its final weights. "
        )
        command = f"maxmincaps look misclassified {material.path(row)}"
        plates += [
            _wrong_images(material, "misclassified", f"Misclassified: {title}", caption, model, command, [row]),
            material.plate(
                "confusion",
                f"Confusion matrix: {title}",
                "Bold: right answers. Shades are of the errors alone.",
                mistakes.confusion(model, name),
                command,
                [row],
            ),
        ]
    return plates


def _wrong_images(
    material: Material, name: str, title: str, caption: str, model: Responses, command: str, rows: Sequence[RunSummary]
) -> Plate:
    """Draw the images that a model gets wrong; a record holds none, so they may not be at hand."""
    try:
        images = test_images(rows[0])
    except InputError as error:
        return Plate(name, title, f"{caption}They cannot be drawn: {error}.", None, "")
    return material.plate(name, title, caption + GRID, mistakes.misclassified(model, images), command, rows)


def _people(material: Material, voted: Responses | None, voters: Sequence[RunSummary]) -> list[Plate]:
    study, poll = material.studies["poll"], material.poll
    below = not voters or material.below_paper(voters)  # a poll does not name its runs
    of_mnist = voted if voters and voters[0].recipe.dataset == "mnist" else None
    table = table_3(poll, of_mnist, below)
    command = "maxmincaps poll open RUN RUN RUN"
    plates = [Plate("table-3", "Table 3", study.claim, table, command, below_paper=below and bool(poll or voted))]
    words = "People beside networks, class by class, for three of the images that the networks get wrong. "
    if poll is None or not (chosen := examples(poll)):
        return [*plates, Plate("figure-10", "Figure 10", words + "Nobody has been asked yet.", None, command)]
    figure = human_or_network(chosen, poll.classes, poll.models)
    words += "People's shares sum to 1, the lengths of capsules do not."
    return [*plates, Plate("figure-10", "Figure 10", words, figure, command, below_paper=below)]


def test_images(row: RunSummary) -> UInt8[Tensor, "image channel height width"]:
    """Load the test images that a run was tested on."""
    return images_seen(Run(Path(row.folder))).test.images
