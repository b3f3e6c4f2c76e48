"""SQL queries over run folders, answered by DuckDB. The files are the only store."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from maxmincaps.errors import InputError, import_extra
from maxmincaps.recipe import IDENTITY, Recipe
from maxmincaps.studies import STUDIES
from maxmincaps.studies.table import read
from maxmincaps.training.run import Run, RunSummary
from maxmincaps.training.schema import EpochMetrics, RunResult

Row = dict[str, Any]  # one row for the database, by column
_RESULT_COLUMNS = tuple(name for name in RunResult.model_fields if name != "epochs")
_DATA_COLUMNS = {
    "train_images": "trained_on",
    "test_images": "tested_on",
    "test_images_per_epoch": "evaluated_on",
    "regenerated": "regenerated",
    "image_shape": "image_shape",
    "classes": "classes",
    "parameters": "parameters",
    "vote_sigma": "used_vote_sigma",
    "rates": "used_rates",
}
_MACHINE_COLUMNS = ("started_at", "maxmincaps", "commit", "torch", "processor")


class Answer(NamedTuple):
    """The result of a query."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def query(folder: Path | str, sql: str) -> Answer:
    """Answer one SELECT about the tables `runs`, `history`, `studies` and `paper`. It cannot write or read any file."""
    duckdb = import_extra("report", "duckdb")
    connection = duckdb.connect(":memory:")
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InputError("--sql: expected one SELECT; run folders cannot be changed by a query")
        for name, rows in tables(folder).items():
            _fill(connection, name, rows)
        # After this neither files nor the network can be reached, and no statement can change that.
        connection.execute("SET temp_directory = ''")  # otherwise files below ./.tmp could still be read
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        found = connection.execute(sql)
        return Answer([column[0] for column in found.description], found.fetchall())
    except duckdb.Error as error:
        raise InputError(f"--sql: {str(error).splitlines()[0]}") from None
    finally:
        connection.close()


def tables(folder: Path | str) -> dict[str, list[Row]]:
    """Return the rows of all tables that a query may use, as plain dictionaries for the database."""
    plan = [
        {
            "study": study.name,
            "scale": scale,
            "line": entry.line.label,
            "value": entry.line.value,
            "dataset": entry.recipe.dataset,
            "seed": entry.recipe.seed,
            "fingerprint": entry.recipe.fingerprint(),
        }
        for study in STUDIES.values()
        for scale in study.scale_names()
        for entry in study.entries(scale)
    ]
    paper = [{"study": study.name, **vars(value)} for study in STUDIES.values() for value in study.paper]
    runs = read(folder).rows
    history = [
        {"run": run.name, "fingerprint": run.fingerprint, **line.model_dump(mode="json")}
        for run in runs
        for line in Run(run.folder).history
    ]
    return {"runs": [run_row(run) for run in runs], "history": history, "studies": plan, "paper": paper}


def run_row(run: RunSummary) -> Row:
    """Flatten a run into the columns of the table `runs`.

    The recipe states what was asked for; `trained_on`, `tested_on`, `evaluated_on` and columns that begin with `used_`
    state what was done.
    """
    result = run.outcome.model_dump() if run.outcome else {}
    data = run.images.model_dump(mode="json") if run.images else {}
    machine = run.machine.model_dump() if run.machine else {}
    return {
        "run": run.name,
        "folder": str(run.folder),
        "fingerprint": run.fingerprint,
        "status": run.status,
        **run.recipe.model_dump(mode="json", include=set(IDENTITY)),
        "epochs_done": run.epochs_done,
        **{name: result.get(name) for name in _RESULT_COLUMNS},
        **{column: data.get(name) for name, column in _DATA_COLUMNS.items()},
        **{name: machine.get(name) for name in _MACHINE_COLUMNS},
        "used_precision": run.precisions or None,
    }


def _fill(connection: Any, name: str, rows: list[Row]) -> None:
    """Create a table. It has its columns even if it is empty."""
    columns = list(dict.fromkeys(column for row in [_EMPTY.get(name, {}), *rows] for column in row))
    values = {column: [_plain(row.get(column)) for row in rows] for column in columns}
    types = {column: _sql_type(found) for column, found in values.items()}
    quoted = ['"' + column.replace('"', '""') + '"' for column in columns]
    described = ", ".join(f"{column} {kind}" for column, kind in zip(quoted, types.values(), strict=True))
    connection.execute(f"CREATE TABLE {name} ({described})")
    if rows:
        # Whole columns at once: row by row would take seconds.
        lists = ", ".join(f"unnest(?::{types[column]}[])" for column in columns)
        connection.execute(f"INSERT INTO {name} SELECT {lists}", list(values.values()))


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _sql_type(values: list[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int}:
        return "BIGINT"
    return "DOUBLE" if kinds <= {int, float} else "VARCHAR"


_EMPTY: dict[str, Row] = {
    "runs": run_row(RunSummary(Path(), Recipe(), "unfinished", 0)),
    "history": dict.fromkeys(("run", "fingerprint", *EpochMetrics.model_fields)),
}
"""A row of each table that may have none."""
