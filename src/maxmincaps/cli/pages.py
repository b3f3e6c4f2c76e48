"""`maxmincaps app` and `maxmincaps poll …`: serve the explorer; ask people about images, and read their answers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from maxmincaps.analysis import poll as polls
from maxmincaps.analysis import poll_results as results
from maxmincaps.cli.terminal import Weights, console, print_table, write_csv
from maxmincaps.errors import InputError, import_extra
from maxmincaps.training.run import SHIPPED_RUN
from maxmincaps.wording import pluralize

if TYPE_CHECKING:
    from maxmincaps.app.store import Store

Host = Annotated[
    str, Parameter(help="Address to listen on. Any but this machine's own (127.0.0.1) requires a token from visitors.")
]
Port = Annotated[int, Parameter(help="Port to listen on; 0 for any free one.")]
DEFAULT = Path("poll.sqlite")
File = Annotated[Path, Parameter(help="The poll's file.")]


def app(*runs: Path, weights: Weights = "best", host: Host = "127.0.0.1", port: Port = 7860) -> None:
    """Serve the explorer until Ctrl-C: draw or upload an image, and see how two runs or two normalizations route it.

    Args:
        runs: Folders of trained runs. Default: the digit network that comes with the package.
    """
    from maxmincaps.app.runs import find_runs

    folders = find_runs(runs or [SHIPPED_RUN], needs=f"{weights}.safetensors")
    import_extra("app", "gradio")
    from maxmincaps.app.serve import Listener

    listener = Listener.open(host, port)
    shown = ", ".join(map(str, folders)) if runs else "the digit network that comes with the package"
    console.print_line(f"showing {shown} ({weights} weights)")
    from maxmincaps.app.explorer import MOST_BYTES, POLICY, explorer_page

    page = explorer_page(folders, weights)
    console.print_line(f"open {listener.address} in a browser; Ctrl-C stops")
    listener.serve(page, policy=POLICY, most_bytes=MOST_BYTES)


def open_(
    *runs: Path, images: str | None = None, out: Path = DEFAULT, host: Host = "127.0.0.1", port: Port = 8000
) -> None:
    """Serve a page that asks people about the images that a majority vote of networks gets wrong, until Ctrl-C.

    Each answer is stored at once. After a stop or a kill the same command continues the poll; `maxmincaps poll open`
    without arguments continues poll.sqlite.

    Args:
        runs: Folders of trained runs, usually three. Default: those of `maxmincaps quickstart`.
        images: Ask about the test images with these indices, as in 1,2,3. Default: those that the majority vote gets
            wrong.
        out: The poll's file. An existing poll is continued.
    """
    import_extra("app", "uvicorn")
    from maxmincaps.app.poll import MOST_BYTES, POLICY, poll_page
    from maxmincaps.app.serve import Listener, is_loopback

    store = _store(runs, _numbers(images), out)
    listener = Listener.open(host, port, store.token)
    again = "" if store.is_open else ", opened again"
    store.set_open(True)
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
    console.print_line(f"{poll} is closed: {_counts(polls.read(poll))}")


def status(poll: File = DEFAULT) -> None:
    """Count people and answers, also while the poll is being served."""
    found = polls.read(poll)
    console.print_line(
        f"{poll} is {'open' if found.is_open else 'closed'}: {_counts(found)}, "
        f"{found.finished:,} of them to all {pluralize(len(found.questions), 'image')}"
    )
    rows = []
    for question in found.questions:
        named = question.counts.max() > question.cannot_tell
        most = found.classes[int(question.counts.argmax())] if named else "cannot tell" if question.answers else "–"
        label, prediction = found.classes[question.label], found.classes[question.prediction]
        rows.append((question.image, label, prediction, question.answers, question.cannot_tell, most))
    print_table("Answers", ("#image", "#label", "#network", "#answers", "#cannot tell", "most people say"), rows)


def _counts(found: polls.Poll) -> str:
    return f"{pluralize(found.answers, 'answer')} of {pluralize(found.people, 'person', 'people')}"


def report(poll: File = DEFAULT, *, out: Path | None = None) -> None:
    """Compare people with networks: print Table 3 and the paper's six rows, and write them and figure 10 to files.

    Args:
        out: Folder for tables and figure. Default: the poll's name, then -report.
    """
    found = polls.read(poll)
    folder = out or poll.with_name(f"{poll.stem}-report")
    folder.mkdir(parents=True, exist_ok=True)
    ours, paper = results.table_3(found), results.paper_rows()
    for name, rows in (("table_3", ours), ("table_3_paper", paper), ("answers", results.answer_rows(found))):
        write_csv(folder / f"{name}.csv", [row._asdict() for row in rows])
    if shown := results.examples(found):
        from maxmincaps.report.poll import human_or_network
        from maxmincaps.report.style import save

        save(human_or_network(shown, found.classes, found.models), folder, "figure_10")
    people, networks = pluralize(found.people, "person", "people"), pluralize(found.models, "network")
    images = f"{pluralize(len(found.questions), 'image')} of {found.dataset}"
    _print_table_3(f"Table 3: {people}, {networks}, {images}", ours, found.classes.__getitem__)
    _print_table_3("The paper's: 120 people, 3 networks, 6 of 17 images", paper, str)
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
        raise InputError(f"--images: expected whole numbers with commas, as in 1,2,3, found {images!r}") from None


def _print_table_3(title: str, rows: Sequence[results.PollRow], name: Callable[[int], str]) -> None:
    def shares(people: float | None, network: float) -> str:
        return f"{'–' if people is None else f'{people:.2f}'}/{network:.2f}"

    columns = ("#image", "#label", "#people/network", "#prediction", "#people/network", "people agree with")
    cells = []
    for row in rows:
        on_label = shares(row.people_on_label, row.network_on_label)
        on_prediction = shares(row.people_on_prediction, row.network_on_prediction)
        label, prediction = name(row.label), name(row.prediction)
        cells.append((row.image, label, on_label, prediction, on_prediction, row.people_agree_with))
    print_table(title, columns, cells)
