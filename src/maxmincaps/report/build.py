"""The report: one self-contained page, and beside it the files of every figure and table."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure

from maxmincaps.analysis import poll as polls
from maxmincaps.analysis.claims import Evidence, count_verdicts, evaluate_claims, summarize_verdicts
from maxmincaps.analysis.runs import RunTable
from maxmincaps.analysis.verdicts import RULE, Verdict
from maxmincaps.errors import InputError
from maxmincaps.files import write_atomic
from maxmincaps.report import tables
from maxmincaps.report.chapters import CHAPTERS, Chapter
from maxmincaps.report.items import PageItem, ReportData
from maxmincaps.report.style import for_page, save
from maxmincaps.report.table import template
from maxmincaps.studies import STUDIES
from maxmincaps.studies.study import Study
from maxmincaps.studies.table import budgets_in_words, coverage, deduplicate, read

SIGNS = dict(zip(Verdict, "✓◐✗?≠…", strict=True))
CSS_CLASSES = {Verdict.SUPPORTED: "supported", Verdict.PARTLY: "supported", Verdict.REFUTED: "refuted"}


def build(
    runs: Path | str, out: Path | str, *, poll: Path | str | None = None, studies: Mapping[str, Study] = STUDIES
) -> Path:
    """Build the report of the runs below a folder, and return the path of the page.

    Args:
        runs: Folder with run folders at any depth.
        out: Folder for the page, figures and tables.
        poll: File of a poll, for table 3 and figure 10.
        studies: The studies that the report covers.
    """
    runs, out = Path(runs), Path(out)
    if not runs.is_dir():
        raise InputError(f"{runs}: there is no such folder of runs")
    found = read(runs)
    table = RunTable(tuple(deduplicate(found.rows)))
    data = ReportData(table, studies, polls.read(poll) if poll else None, runs)
    out.mkdir(parents=True, exist_ok=True)
    evidence = evaluate_claims(table)
    tables.claims(evidence).save(out / "tables")
    for name, text in (("claims-summary", summarize_verdicts(evidence)), ("verdict-rule", RULE)):
        write_atomic(out / "tables" / f"{name}.md", f"{text}\n".encode())  # the documentation includes both
    chapters = [(chapter, _items(chapter, data)) for chapter in CHAPTERS]
    tested: dict[str, list[Evidence]] = defaultdict(list)
    for one in evidence:
        if one.verdict is not Verdict.NOT_TESTED:
            tested[one.claim.study].append(one)
    page = template("page.html.jinja").render(
        evidence=evidence,
        tested=[(STUDIES[name], own[0].finding.runs, own) for name, own in tested.items()],
        untested=[one for one in evidence if one.verdict is Verdict.NOT_TESTED],
        counts=count_verdicts(evidence),
        rule=RULE,
        signs=SIGNS,
        css=CSS_CLASSES,
        chapters=[
            (chapter, [(item, *_write(item, out)) for item in items if item.content or item.caption])
            for chapter, items in chapters
        ],
        not_run=[item for _, items in chapters for item in items if not item.content and not item.caption],
        coverage=[
            (study, {scale: done for scale, done in coverage(study, table).items() if done[0]})
            for study in studies.values()
            if not study.borrows
        ],
        data=data,
        budgets_in_words=budgets_in_words,
        notes=found.notes,
        made_on=datetime.now(UTC).date().isoformat(),
        version=version("maxmincaps"),
    )
    # A name that is not valid Unicode must not make the page impossible to write.
    write_atomic(out / "index.html", page.encode(errors="backslashreplace"))
    return out / "index.html"


def _items(chapter: Chapter, data: ReportData) -> list[PageItem]:
    """Return the items of a chapter. A run folder that cannot be read affects its chapter, not the page."""
    try:
        return chapter.items(data)
    except InputError as error:
        return [PageItem(chapter.name, chapter.heading, f"This chapter cannot be drawn: {error}.", None)]


def _write(item: PageItem, out: Path) -> tuple[Markup | None, list[str]]:
    """Write the files of an item; return its HTML and the paths of its files from the page."""
    if item.content is None:
        return None, []
    if isinstance(item.content, Figure):
        paths = [*save(item.content, out / "figures", item.name)]
        caption = f"{item.title}. {item.caption}\n".encode(errors="backslashreplace")
        write_atomic(out / "figures" / f"{item.name}.md", caption)
        html = Markup(for_page(paths[1].read_text(encoding="utf-8"), item.name))
    else:
        paths = item.content.save(out / "tables")
        html = Markup(item.content.to_html())
    return html, [path.relative_to(out).as_posix() for path in paths]
