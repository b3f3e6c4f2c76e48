"""The paper's experiments and our own, and how they are run and read."""

from maxmincaps.errors import check_name
from maxmincaps.studies import ours, paper
from maxmincaps.studies.study import Study, is_study_file, load_study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        *(paper.TABLE_1, paper.MNIST_RECORD, paper.POLL, paper.TABLE_4, paper.ITERATIONS, paper.BOUNDS),
        *paper.FIGURES_INSIDE,
        *(ours.ABLATIONS, ours.AS_WRITTEN, ours.GAP, ours.INACTIVE, ours.OVERLAP),
        *(paper.MISCLASSIFIED, paper.ARCHITECTURE),
    )
}
"""The studies that come with the package, by name."""
FORMER_NAMES = {"choices": "ablations", "literal": "as-written"}  # names of earlier versions that commands still accept


def find_study(name: str) -> Study:
    """Return a study by its name, or by the path of a user's own study file.

    Args:
        name: A name in `STUDIES`, or a path that ends in `.py`. **A study file is executed.**

    Raises:
        InputError: If there is no such study, or the file defines none.
    """
    if is_study_file(name):
        return load_study(name)
    return STUDIES[check_name(FORMER_NAMES.get(name, name), STUDIES, "study")]
