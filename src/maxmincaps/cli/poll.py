"""`maxmincaps poll …`: put a network's errors to people, and read what they said."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from maxmincaps.analysis import poll as polls
from maxmincaps.analysis import poll_results as results
from maxmincaps.cli.explorer import Host, Port
from maxmincaps.cli.terminal import console, table, write_csv
from maxmincaps.errors import InputError

if TYPE_CHECKING:
    from maxmincaps.app.store import Store

DEFAULT = Path("poll.sqlite")
File = Annotated[Path, Parameter(help="The poll's file.")]


def open_(
    *runs: Annotated[Path, Parameter(help="Folders of trained runs, usually three. Default: the quickstart's.")],
    images: Annotated[
        str | None, Parameter(help="Ask about these test images, as in 1,2,3. Default: those that the vote gets wrong.")
    ] = None,
    out: Annotated[Path, Parameter(help="The poll's file. One that is there is continued.")] = DEFAULT,
    host: Host = "127.0.0.1",
    port: Port = 8000,
) -> None:
    """Serve the images that a vote of networks gets wrong, one at a time, until Ctrl-C; every answer is kept at once.

    Stopped or killed, nothing is lost: the same command goes on, and `maxmincaps poll open` alone goes on with
    poll.sqlite.
    """
    from maxmincaps.errors import import_extra

    import_extra("app", "uvicorn")
    from maxmincaps.app.poll import MOST_BYTES, POLICY, poll_page
    from maxmincaps.app.serve import Door

    numbers = _numbers(images)
    store = _store(runs, numbers, out)
    door = Door.open(host, port, store.token)
    was_closed = not store.is_open
    store.set_open(True)

    again = ", opened again" if was_closed else ""
    console.say(f"{len(store.images)} images, answers go to {out}{again}")
    console.say(f"open {door.address} in a browser, or send it to people; Ctrl-C stops, and nothing is lost")
    door.serve(poll_page(store), policy=POLICY, most_bytes=MOST_BYTES)


def close(poll: File = DEFAULT) -> None:
    """Take no more answers; people who come are told so. `poll open` opens it again."""
    from maxmincaps.app.store import Store

    store = Store.existing(poll)
    store.set_open(False)
    store.shut()
    found = polls.read(poll)
    console.say(f"{poll} is closed: {found.answers:,} answers of {found.people:,} people")


def status(poll: File = DEFAULT) -> None:
    """Count people and answers, also while the poll is being served."""
    found = polls.read(poll)
    console.say(
        f"{poll} is {'open' if found.is_open else 'closed'}: {found.answers:,} answers of {found.people:,} people, "
        f"{found.finished:,} of them to all {len(found.questions)} images"
    )
    shown = table("Answers", "#image", "#label", "#network", "#answers", "most people say")
    for question in found.questions:
        most = found.classes[int(question.counts.argmax())] if question.counts.sum() else "–"
        label, prediction = found.classes[question.label], found.classes[question.prediction]
        shown.add_row(str(question.image), label, prediction, str(question.counts.sum()), most)
    console.print(shown)


def report(
    poll: File = DEFAULT,
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder for tables and figure. Default: the poll's name, then -report.")
    ] = None,
) -> None:
    """Put people beside networks: Table 3 with the paper's six rows, figure 10, and both as CSV."""
    found = polls.read(poll)
    folder = out or poll.with_name(f"{poll.stem}-report")
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "table_3.csv", results.table_3(found))
    write_csv(folder / "table_3_paper.csv", results.paper_rows())
    write_csv(folder / "answers.csv", results.answer_rows(found))
    _draw(found, folder)
    title = (
        f"Table 3: {found.people:,} people, {found.models} networks, {len(found.questions)} images of {found.dataset}"
    )
    names = found.classes
    console.print(_table_3(title, results.table_3(found), lambda label: names[label]))
    console.print(_table_3("The paper's: 120 people, 3 networks, 6 of 17 images", results.paper_rows(), str))
    console.say(results.agreement(found))
    console.say(f"wrote {folder}")


def _store(runs: Sequence[Path], images: list[int] | None, out: Path) -> "Store":
    from maxmincaps.app.store import Store

    if not runs and images is None and out.exists():
        return Store.existing(out)
    from maxmincaps.app.questions import questions_of
    from maxmincaps.app.runs import QUICKSTART, trained_runs

    chosen = trained_runs(runs or [QUICKSTART], needs="lengths.safetensors")
    console.say(f"the vote of {', '.join(map(str, chosen))}")
    return Store.create(out, questions_of(chosen, images))


def _numbers(images: str | None) -> list[int] | None:
    try:
        return None if images is None else [int(number) for number in images.split(",")]
    except ValueError:
        raise InputError(f"--images: expected numbers, as in 1,2,3, found {images!r}") from None


def _draw(found: polls.Poll, folder: Path) -> None:
    shown = results.examples(found)
    if not shown:
        return
    from maxmincaps.report.poll import human_or_network
    from maxmincaps.report.style import save

    save(human_or_network(shown, found.classes, found.models), folder, "figure_10")


def _table_3(title: str, rows: Sequence[results.Row], name: Callable[[int], str]) -> Any:
    columns = ("#image", "#label", "#people/network", "#prediction", "#people/network", "people agree with")
    shown = table(title, *columns)
    for row in rows:
        shown.add_row(
            str(row["image"]),
            name(row["label"]),
            f"{_share(row['people_on_label'])}/{row['network_on_label']:.2f}",
            name(row["prediction"]),
            f"{_share(row['people_on_prediction'])}/{row['network_on_prediction']:.2f}",
            row["people_agree_with"],
        )
    return shown


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"
