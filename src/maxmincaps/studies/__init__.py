"""Chapter 5: the paper's experiments, one file a table or figure, and how they are run and read."""

from maxmincaps.studies.ablations import ABLATIONS
from maxmincaps.studies.as_written import AS_WRITTEN
from maxmincaps.studies.beginning import BEGINNING
from maxmincaps.studies.bounds import BOUNDS
from maxmincaps.studies.by_heart import BY_HEART
from maxmincaps.studies.eight_epochs import EIGHT_EPOCHS
from maxmincaps.studies.figure_1_architecture import ARCHITECTURE
from maxmincaps.studies.figure_9_misclassified import MISCLASSIFIED
from maxmincaps.studies.figures_2_to_6_inside import EVOLUTION, OUTPUTS, ROWS, TUNING
from maxmincaps.studies.figures_7_8_iterations import ITERATIONS
from maxmincaps.studies.first_try import FIRST_TRY
from maxmincaps.studies.learning import LEARNING
from maxmincaps.studies.options import OPTIONS
from maxmincaps.studies.paces import PACES_STUDY
from maxmincaps.studies.rates import RATES
from maxmincaps.studies.study import Study
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
        BEGINNING,
        RATES,
        OPTIONS,
        BY_HEART,
        PACES_STUDY,
        EIGHT_EPOCHS,
        LEARNING,
        FIRST_TRY,
        MISCLASSIFIED,
        ARCHITECTURE,
    )
}
"""Every study by name."""
