"""The paper's experiments, one file for each table or figure, and how they are run and read."""

from maxmincaps.errors import check_name
from maxmincaps.studies.ablations import ABLATIONS
from maxmincaps.studies.as_written import AS_WRITTEN
from maxmincaps.studies.bounds import BOUNDS
from maxmincaps.studies.figure_1_architecture import ARCHITECTURE
from maxmincaps.studies.figure_9_misclassified import MISCLASSIFIED
from maxmincaps.studies.figures_2_to_6_inside import EVOLUTION, OUTPUTS, ROWS, TUNING
from maxmincaps.studies.figures_7_8_iterations import ITERATIONS
from maxmincaps.studies.gap import GAP
from maxmincaps.studies.inactive import INACTIVE
from maxmincaps.studies.study import Study
from maxmincaps.studies.study_file import is_study_file, load_study
from maxmincaps.studies.table_1_datasets import TABLE_1
from maxmincaps.studies.table_2_mnist_record import MNIST_RECORD
from maxmincaps.studies.table_3_poll import POLL
from maxmincaps.studies.table_4_normalizations import TABLE_4

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        TABLE_1,
        MNIST_RECORD,
        POLL,
        TABLE_4,
        ITERATIONS,
        BOUNDS,
        EVOLUTION,
        ROWS,
        OUTPUTS,
        TUNING,
        ABLATIONS,
        AS_WRITTEN,
        GAP,
        INACTIVE,
        MISCLASSIFIED,
        ARCHITECTURE,
    )
}
"""The studies that come with the package, by name."""
FORMER_NAMES = {"choices": "ablations", "literal": "as-written"}
"""Names of earlier versions that commands still accept."""


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
