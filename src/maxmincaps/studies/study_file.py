"""Studies in a user's own Python file.

A study file assigns a `Study` to the name `STUDY`:

    # Does a wider first layer help on 4,000 digits?
    from maxmincaps.studies.study import Budget, Line, Study

    STUDY = Study(
        name="widths",
        datasets=("mnist-5k",),
        lines=tuple(Line(f"{width} kernels", {"conv_channels": width}) for width in (64, 128, 256)),
        scales={"small": (Budget(epochs=3, seeds=3),)},
    )

`maxmincaps study run widths.py` trains its runs, `maxmincaps study report widths.py` prints their accuracies.
"""

import runpy
from dataclasses import replace
from pathlib import Path

from maxmincaps.errors import InputError, one_line
from maxmincaps.studies.study import Study

VARIABLE = "STUDY"


def is_study_file(name: str) -> bool:
    """Return whether a study is given by the path of a file rather than by its name."""
    return name.endswith(".py")


def load_study(path: Path | str) -> Study:
    """Execute a study file and return its study. Load only files that you would run with Python.

    Args:
        path: A Python file that assigns a `Study` to the name `STUDY`. Its docstring describes the study if the
            study has no description of its own.

    Raises:
        InputError: If the file is missing, raises an exception, or assigns no study.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such study file")
    try:
        names = runpy.run_path(str(path))
    except Exception as error:
        raise InputError(f"{path}: cannot be executed: {type(error).__name__}: {one_line(error)}") from error
    study = names.get(VARIABLE)
    if not isinstance(study, Study):
        raise InputError(f"{path}: expected a study file that assigns a Study to the name {VARIABLE}")
    return replace(study, about=study.about or names.get("__doc__") or study.claim)
