"""The report: one page that needs nothing else, and beside it a file for every figure and table."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from maxmincaps.analysis import poll as polls
from maxmincaps.analysis.claims import evidence
from maxmincaps.analysis.compare import Verdict
from maxmincaps.errors import InputError
from maxmincaps.report import tables
from maxmincaps.report.chapters import CHAPTERS, Chapter
from maxmincaps.report.material import Material, Plate, command_for, study_command
from maxmincaps.report.selection import shown
from maxmincaps.report.style import for_page, save
from maxmincaps.report.table import Table
from maxmincaps.studies import STUDIES
from maxmincaps.studies.study import Study
from maxmincaps.studies.table import budgets_in_words, coverage, deduplicate, read
from maxmincaps.training.run import write_atomic

SIGNS = {Verdict.HOLDS: "✓", Verdict.FAILS: "✗", Verdict.UNDECIDED: "?", Verdict.TOO_FEW: "…"}


@dataclass(frozen=True)
class Written:
    """A plate as the page shows it."""

    plate: Plate
    html: Markup | None
    files: tuple[str, ...]
    """Where it lies beside the page."""


def build(
    runs: Path | str,
    out: Path | str,
    *,
    poll: Path | str | None = None,
    studies: Mapping[str, Study] = STUDIES,
) -> Path:
    """Build the page from the records below `runs`, and give its path; what is not there yet is said on it."""
    runs, out = Path(runs), Path(out)
    if not runs.is_dir():
        raise InputError(f"{runs}: there is no such folder of runs")
    found = read(runs)
    rows = deduplicate(found.rows)
    material = Material(rows, studies, polls.read(poll) if poll else None, runs)
    out.mkdir(parents=True, exist_ok=True)
    claims = evidence(rows)
    tables.claims(claims).save(out / "tables")
    page = _template().render(
        claims=claims,
        claims_of=[(shown(STUDIES[study], rows), [*own]) for study, own in groupby(claims, attrgetter("study"))],
        verdicts=Counter(claim.verdict for claim in claims),
        at_paper=sum(claim.at_paper and claim.verdict != Verdict.TOO_FEW for claim in claims),
        Verdict=Verdict,
        signs=SIGNS,
        chapters=[(chapter, [_written(plate, out) for plate in _plates(chapter, material)]) for chapter in CHAPTERS],
        coverage=[(study, coverage(study, rows)) for study in studies.values() if study.scale_names()],
        command_for=command_for,
        study_command=study_command,
        budgets_in_words=budgets_in_words,
        rows=rows,
        notes=found.notes,
        made_on=datetime.now(UTC).date().isoformat(),
        version=version("maxmincaps"),
    )
    write_atomic(out / "index.html", page.encode())
    return out / "index.html"


def _plates(chapter: Chapter, material: Material) -> list[Plate]:
    """Give a chapter's plates; a record that cannot be read costs its chapter, not the page."""
    try:
        return chapter.plates(material)
    except InputError as error:
        return [Plate(chapter.name, chapter.heading, f"This chapter cannot be drawn: {error}.", None, command="")]


def _written(plate: Plate, out: Path) -> Written:
    """Write a plate's files, and give it as the page shows it."""
    if isinstance(plate.content, Figure):
        paths = save(plate.content, out / "figures", plate.name)
        write_atomic(out / "figures" / f"{plate.name}.md", f"{plate.title}. {plate.caption}\n".encode())
        html = Markup(for_page(paths[1].read_text(encoding="utf-8"), plate.name))
    elif isinstance(plate.content, Table):
        paths = tuple(plate.content.save(out / "tables"))
        html = Markup(plate.content.to_html())
    else:
        return Written(plate, None, ())
    return Written(plate, html, tuple(path.relative_to(out).as_posix() for path in paths))


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("maxmincaps", "report")
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    ).get_template("page.html.jinja")
