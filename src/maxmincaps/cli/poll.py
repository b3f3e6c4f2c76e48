"""`maxmincaps poll …`: ask people about the images that networks get wrong, and read the answers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from maxmincaps.analysis import poll as polls
from maxmincaps.analysis import poll_results as results
from maxmincaps.cli.explorer import Host, Port
from maxmincaps.cli.terminal import console, table, write_csv
from maxmincaps.errors import InputError
from maxmincaps.wording import pluralize

if TYPE_CHECKING:
    from maxmincaps.app.store import Store

DEFAULT = Path("poll.sqlite")
File = Annotated[Path, Parameter(help="The poll's file.")]


def open_(
    *runs: Annotated[Path, Parameter(help="Folders of trained runs, usually three. Default: the quickstart's.")],
    images: Annotated[
        str | None,
        Parameter(help="Ask about these test images, as in 1,2,3. Default: those that the majority vote gets wrong."),
    ] = None,
    out: Annotated[Path, Parameter(help="The poll's file. An existing poll is continued.")] = DEFAULT,
    host: Host = "127.0.0.1",
    port: Port = 8000,
) -> None:
    """Serve the images that a majority vote of networks gets wrong, one at a time, until Ctrl-C.

    Each answer is stored at once. After a stop or a kill the same command continues, and `maxmincaps poll open` alone
    continues poll.sqlite.
    """
    from maxmincaps.errors import import_extra

    import_extra("app", "uvicorn")
    from maxmincaps.app.poll import MOST_BYTES, POLICY, poll_page
    from maxmincaps.app.serve import Listener, is_loopback

    numbers = _numbers(images)
    store = _store(runs, numbers, out)
    listener = Listener.open(host, port, store.token)
    was_closed = not store.is_open
    store.set_open(True)

    again = ", opened again" if was_closed else ""
    console.print_line(f"{pluralize(len(store.images), 'image')}, answers go to {out}{again}")
    console.print_line(_invitation(listener.address, is_loopback(host)))
    listener.serve(poll_page(store), policy=POLICY, most_bytes=MOST_BYTES)


def _invitation(address: str, is_local: bool) -> str:
    if is_local:
        return f"open {address} in a browser on this machine (--host 0.0.0.0 admits others); Ctrl-C stops"
    return f"send {address} to people, or open it in a browser; Ctrl-C stops"


def close(poll: File = DEFAULT) -> None:
    """Stop taking answers, and show visitors that the poll is closed. `poll open` opens it again."""
    from maxmincaps.app.store import Store

    store = Store.existing(poll)
    store.set_open(False)
    store.close()
    found = polls.read(poll)
    console.print_line(f"{poll} is closed: {_counts(found)}")


def status(poll: File = DEFAULT) -> None:
    """Count people and answers, also while the poll is being served."""
    found = polls.read(poll)
    console.print_line(
        f"{poll} is {'open' if found.is_open else 'closed'}: {_counts(found)}, "
        f"{found.finished:,} of them to all {pluralize(len(found.questions), 'image')}"
    )
    shown = table("Answers", "#image", "#label", "#network", "#answers", "#cannot tell", "most people say")
    for question in found.questions:
        named = question.counts.max() > question.cannot_tell
        most = found.classes[int(question.counts.argmax())] if named else "cannot tell" if question.answers else "–"
        label, prediction = found.classes[question.label], found.classes[question.prediction]
        shown.add_row(str(question.image), label, prediction, str(question.answers), str(question.cannot_tell), most)
    console.print(shown)


def _counts(found: polls.Poll) -> str:
    return f"{pluralize(found.answers, 'answer')} of {_people(found.people)}"


def _people(number: int) -> str:
    return f"{number:,} {'person' if number == 1 else 'people'}"


def report(
    poll: File = DEFAULT,
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder for tables and figure. Default: the poll's name, then -report.")
    ] = None,
) -> None:
    """Compare people with networks: Table 3 beside the paper's six rows, and figure 10, also as CSV."""
    found = polls.read(poll)
    folder = out or poll.with_name(f"{poll.stem}-report")
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "table_3.csv", [row._asdict() for row in results.table_3(found)])
    write_csv(folder / "table_3_paper.csv", [row._asdict() for row in results.paper_rows()])
    write_csv(folder / "answers.csv", [row._asdict() for row in results.answer_rows(found)])
    _draw(found, folder)
    counts = _people(found.people), pluralize(found.models, "network"), pluralize(len(found.questions), "image")
    title = f"Table 3: {', '.join(counts)} of {found.dataset}"
    names = found.classes
    console.print(_table_3(title, results.table_3(found), lambda label: names[label]))
    console.print(_table_3("The paper's: 120 people, 3 networks, 6 of 17 images", results.paper_rows(), str))
    console.print_line(results.agreement(found))
    console.print_line(f"wrote {folder}")


def _store(runs: Sequence[Path], images: list[int] | None, out: Path) -> "Store":
    from maxmincaps.app.store import Store

    if not runs and images is None and out.exists():
        return Store.existing(out)
    from maxmincaps.app.questions import build_questionnaire
    from maxmincaps.app.runs import QUICKSTART, find_runs

    chosen = find_runs(runs or [QUICKSTART], needs="lengths.safetensors")
    console.print_line(f"majority vote of {', '.join(map(str, chosen))}")
    return Store.create(out, build_questionnaire(chosen, images))


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


def _table_3(title: str, rows: Sequence[results.PollRow], name: Callable[[int], str]) -> Any:
    columns = ("#image", "#label", "#people/network", "#prediction", "#people/network", "people agree with")
    shown = table(title, *columns)
    for row in rows:
        shown.add_row(
            str(row.image),
            name(row.label),
            f"{_share(row.people_on_label)}/{row.network_on_label:.2f}",
            name(row.prediction),
            f"{_share(row.people_on_prediction)}/{row.network_on_prediction:.2f}",
            row.people_agree_with,
        )
    return shown


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"
