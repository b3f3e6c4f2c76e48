"""The records as a table: every run a row. Files are the truth; DuckDB answers questions about them."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxmincaps.errors import InputError, extra
from maxmincaps.recipe import IDENTITY, Recipe
from maxmincaps.studies import STUDIES
from maxmincaps.studies.study import PAPER_SCALE, Study, title_of
from maxmincaps.training.record import Record, records_under
from maxmincaps.training.words import counted

Row = dict[str, Any]
MOST_SEEDS = 100
"""Seeds from here on are taken for somebody's own, not for further runs of a study."""

_RESULT = (
    "best_test_accuracy",
    "best_epoch",
    "best_chosen_by",
    "final_test_accuracy",
    "train_accuracy",
    "train_accuracy_images",
    "best_running_train_accuracy",
    "steps",
    "skipped_steps",
    "seconds",
)
# The recipe says what was asked for; the record, under another name, what it came to.
_DATA = {
    "train_images": "trained_on",
    "test_images": "tested_on",
    "test_images_per_epoch": "judged_on",
    "regenerated": "regenerated",
    "image_shape": "image_shape",
    "classes": "classes",
    "parameters": "parameters",
    "vote_sigma": "used_vote_sigma",
    "rates": "used_rates",
}
_ENVIRONMENT = ("started_at", "maxmincaps", "commit", "torch", "processor")
# A folder without runs has these columns too, so that a question about it is answered with no rows.
_COLUMNS = {
    "runs": (
        *("run", "folder", "fingerprint", "status", *IDENTITY, "epochs_done", *_RESULT, *_DATA.values()),
        *(*_ENVIRONMENT, "used_precision"),
    ),
    "history": ("run", "fingerprint", "epoch", "test_accuracy"),
}


@dataclass(frozen=True)
class Reading:
    """What was found below a folder."""

    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    """One line for each folder that could not be read."""


@dataclass(frozen=True)
class Answer:
    """What a question in SQL was answered with."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def read(folder: Path | str) -> Reading:
    """Read every record below a folder; what is half written or not ours becomes a note."""
    rows, notes = [], []
    for record in records_under(Path(folder)):
        try:
            rows.append(row_of(record))
        except InputError as error:
            notes.append(str(error))
    return Reading(rows, notes)


def once(rows: Sequence[Row]) -> list[Row]:
    """Give each run once: a copy of a record is no second run. The one that came furthest stands for all."""
    order = ("unfinished", "diverged", "complete")
    furthest = {row["fingerprint"]: row for row in sorted(rows, key=lambda row: order.index(row["status"]))}
    return [row for row in rows if row is furthest[row["fingerprint"]]]


def table(folder: Path | str) -> list[Row]:
    """Give a row for every run below a folder: its settings, how far it is, and how it ended.

    Columns: `run` (the folder's name), `folder`, `fingerprint`, `status` (complete, diverged or unfinished), every
    setting of the recipe, `epochs_done`, and, once there are any, the result (`best_test_accuracy`, …, as shares of 1),
    what the images were (`trained_on`, `tested_on`, `judged_on`, `regenerated`, …) and where it was trained.
    """
    return read(folder).rows


def row_of(record: Record) -> Row:
    """Make a record a row."""
    recipe, history = record.recipe, record.history
    result = record.result if record.complete else dict.fromkeys(_RESULT)
    data = record.data if (record.folder / "data.json").exists() else {}
    where = record.environment if (record.folder / "environment.json").exists() else {}
    precisions = [str(part["precision"]) for part in (where, *where.get("continued", ())) if "precision" in part]
    return {
        "run": record.folder.name,
        "folder": str(record.folder),
        "fingerprint": recipe.fingerprint(),
        "status": record.status,
        **recipe.model_dump(mode="json", include=set(IDENTITY)),
        "epochs_done": len(history),
        **{name: result[name] for name in _RESULT},
        **{ours: data.get(theirs) for theirs, ours in _DATA.items()},
        **{name: where.get(name) for name in _ENVIRONMENT},
        "used_precision": ", then ".join(dict.fromkeys(precisions)) or None,
    }


def history_table(folder: Path | str) -> list[Row]:
    """Give a row for every epoch of every run below a folder."""
    rows = []
    for record in records_under(Path(folder)):
        try:
            recipe = record.recipe
            rows += [
                {"run": record.folder.name, "fingerprint": recipe.fingerprint(), **line} for line in record.history
            ]
        except InputError:
            continue  # `read` says what is wrong with it
    return rows


def seeds_among(rows: Iterable[Row]) -> int:
    """Tell how many seeds of a study to look for: nobody is kept from running more of them than a scale has."""
    return 1 + max((row["seed"] for row in rows if row["seed"] < MOST_SEEDS), default=0)


def study_rows(study: Study, scale: str, rows: Iterable[Row], seeds: int | None = None) -> list[Row]:
    """Give the runs of a study that are over, each with its `line` and `value`; a run may stand on several lines.

    Diverged runs are among them (`status`), without results: a table says how many there were.
    `seeds` asks for more seeds than the scale has.
    """
    found = {row["fingerprint"]: row for row in once(list(rows)) if row["status"] != "unfinished"}
    return [
        {**found[print_], "study": study.name, "scale": scale, "line": entry.line.label, "value": entry.line.value}
        for entry in study.entries(scale, seeds)
        if (print_ := entry.recipe.fingerprint()) in found
    ]


def coverage(study: Study, rows: Iterable[Row]) -> dict[str, tuple[int, int]]:
    """Tell, for each scale of a study, how many of its runs are over, and how many it has."""
    done = {row["fingerprint"] for row in rows if row["status"] != "unfinished"}
    grids = {scale: study.grid(scale) for scale in study.scale_names()}
    return {scale: (sum(r.fingerprint() in done for r in grid), len(grid)) for scale, grid in grids.items()}


def shown_rows(study: Study, rows: Sequence[Row]) -> list[Row]:
    """Give the runs of a study that count: of each dataset those of one scale, as `study_rows` gives them.

    It is the largest scale that is whole, else the one of which most has been run; one with a smaller network than the
    paper's only where there is no other. Seeds beyond its own count too.
    Tables, figures and claims all ask here, so that one page speaks of the same runs everywhere.
    """
    chosen: dict[str, tuple[tuple[bool, float], list[Row]]] = {}
    for scale in study.scale_names():
        found = study_rows(study, scale, rows, seeds_among(rows))
        over = {row["fingerprint"] for row in found}
        wanted: dict[str, list[bool]] = {}
        for recipe in study.grid(scale):
            wanted.setdefault(recipe.dataset, []).append(recipe.fingerprint() in over)
        for dataset, done in wanted.items():
            own = [row for row in found if row["dataset"] == dataset]
            rank = any(map(has_papers_network, own)), sum(done) / len(done)
            if own and (dataset not in chosen or rank > chosen[dataset][0]):
                chosen[dataset] = rank, own
    order = (study.borrows or study).datasets
    return [row for dataset in sorted(chosen, key=order.index) for row in chosen[dataset][1]]


def has_papers_budget(study: Study, rows: Sequence[Row]) -> bool:
    """Tell whether runs, as `study_rows` gives them, are all that the paper has of their lines, with its epochs."""
    if any(row["scale"] != PAPER_SCALE for row in rows):
        return False
    there = {row["fingerprint"] for row in rows}
    lines = {(row["dataset"], row["line"], row["value"]) for row in rows}
    wanted = study.entries(PAPER_SCALE) if rows else []
    return not any(
        (entry.recipe.dataset, entry.line.label, entry.line.value) in lines and entry.recipe.fingerprint() not in there
        for entry in wanted
    )


def budget_in_words(row: Row) -> str:
    """Say what a run cost, from its record: it stands beside every number."""
    images = row["trained_on"] if row["trained_on"] is not None else row["train_images"]
    words = [counted(row["epochs"], "epoch") + (f" of {images:,} images" if images else "")]
    if row["judged_on"] and row["tested_on"] and row["judged_on"] < row["tested_on"]:
        words.append(f"best epoch by {row['judged_on']:,} of {row['tested_on']:,} test images")
    if row["validation"]:
        words.append(f"best epoch by {row['validation']:,} held-out training images")
    if not has_papers_network(row):
        words.append("not the paper's network")
    if "bf16" in (row["used_precision"] or ""):
        words.append(f"products in {row['used_precision']}")
    if row["regenerated"]:
        words.append("regenerated images")
    if row["skipped_steps"]:
        words.append(f"{row['skipped_steps']:,} of {row['steps']:,} steps skipped")
    return ", ".join(words)


def budgets_in_words(rows: Iterable[Row]) -> str:
    """Say what some runs cost: each budget once, with the datasets and the number of runs that have it."""
    groups: dict[str, dict[str, Row]] = {}
    for row in rows:  # one that stands on several lines of a study is counted once
        groups.setdefault(budget_in_words(row), {})[row["fingerprint"]] = row
    return "; ".join(
        f"{', '.join(dict.fromkeys(title_of(row['dataset']) for row in own.values()))}: {words} "
        f"(runs: {how_many([*own.values()])})"
        for words, own in groups.items()
    )


def how_many(rows: Sequence[Row]) -> str:
    """Say how many runs came to a result, and how many diverged or are not over yet."""
    states = Counter(row["status"] for row in rows)
    others = ", ".join(f"{states[state]} {state}" for state in ("diverged", "unfinished") if states[state])
    return f"{states['complete']}" + (f" and {others}" if others else "")


def has_papers_network(row: Row) -> bool:
    """Tell whether the network of a run has the paper's sizes."""
    sizes = {"conv_channels", "conv_kernel", "conv_stride", "types", "primary_kernel", "primary_stride", "padding"}
    sizes |= {"part_pose", "class_pose", "decoder"}
    paper = Recipe().model_dump(mode="json", include=sizes)
    shape = row["image_shape"]
    types = 32 if shape and shape[0] == 1 else 64  # what no setting means
    cropped = row["dataset"] != "cifar10" or row["crop"] in (None, 24)
    return cropped and all(row[name] == size for name, size in paper.items() if name != "types" or row[name] != types)


def query(folder: Path | str, sql: str) -> Answer:
    """Answer one SELECT about the tables `runs`, `history`, `studies` and `paper`. It cannot write or read any file."""
    duckdb = extra("report", "duckdb")
    connection = duckdb.connect(":memory:")
    try:
        _refuse_all_but_one_select(duckdb, connection, sql)
        for name, rows in tables(folder).items():
            _fill(connection, name, rows)
        # After this neither files nor the network can be reached, and no statement can change that.
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        found = connection.execute(sql)
        return Answer([column[0] for column in found.description], found.fetchall())
    except duckdb.Error as error:
        raise InputError(f"--sql: {str(error).splitlines()[0]}") from None
    finally:
        connection.close()


def tables(folder: Path | str) -> dict[str, list[Row]]:
    """Give all tables that a question may be about."""
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
    return {"runs": table(folder), "history": history_table(folder), "studies": plan, "paper": paper}


def _refuse_all_but_one_select(duckdb: Any, connection: Any, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InputError("--sql: expected one SELECT; the records themselves are files, and only runs change them")


def _fill(connection: Any, name: str, rows: list[Row]) -> None:
    columns = list(dict.fromkeys([*_COLUMNS.get(name, ()), *(column for row in rows for column in row)]))
    values = {column: [_sql_value(row.get(column)) for row in rows] for column in columns}
    types = {column: _sql_type(found) for column, found in values.items()}
    connection.execute(f"CREATE TABLE {name} ({', '.join(f'{_quoted(column)} {types[column]}' for column in columns)})")
    if rows:
        # Whole columns at once: row by row would take seconds.
        lists = ", ".join(f"unnest(?::{types[column]}[])" for column in columns)
        connection.execute(f"INSERT INTO {name} SELECT {lists}", list(values.values()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_type(values: list[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int}:
        return "BIGINT"
    return "DOUBLE" if kinds <= {int, float} else "VARCHAR"


def _sql_value(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
