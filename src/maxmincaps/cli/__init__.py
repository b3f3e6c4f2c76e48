"""The command line: verbs are found here and loaded when they are called, so that `--help` needs no torch."""

import io
import signal
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Group, MissingArgumentError, Parameter, UnknownCommandError
from cyclopts.command_spec import CommandSpec
from rich.text import Text

from maxmincaps.errors import DivergedError, InputError, is_lack_of_memory, one_line

INPUT_ERROR, DIVERGED, INTERRUPTED = 2, 3, 130
"""Exit codes: wrong input, a training that diverged, Ctrl-C."""


def _said(error: CycloptsError) -> Text:
    """Say what is wrong with the arguments in one line."""
    if isinstance(error, UnknownCommandError):
        return _line(_unknown(error))
    if isinstance(error, MissingArgumentError) and error.argument and not error.argument.tokens and not error.keyword:
        # By its place on the command line, where the library's own sentence asks for an option that nobody writes.
        command, name = " ".join(error.command_chain or ()), error.argument.name.lstrip("-").upper()
        return _line(f"{command}: expected {name}, found nothing; see maxmincaps {command} --help")
    # Imported here, as they would be a third of the time in which `--help` answers.
    from pydantic import ValidationError

    from maxmincaps.recipe import in_words

    cause = error.__cause__ or error.__context__
    return _line(in_words(cause) if isinstance(cause, ValidationError) else str(error))


def _unknown(error: UnknownCommandError) -> str:
    """Name the verbs that there are; the library's own sentence would load all of them, and torch with them."""
    from difflib import get_close_matches

    word = (error.unused_tokens or [""])[0]
    names = [name for name in error.app or () if not name.startswith("-")]
    near = "".join(f"; did you mean {name}?" for name in get_close_matches(word, names, 1))
    return f"no command is called {word!r:.100}{near or '; there are ' + ', '.join(names)}"


def _line(message: str) -> Text:
    return Text.assemble(("maxmincaps: ", "bold red"), one_line(message, 10_000))


app = App(
    name="maxmincaps",
    help="Capsule networks with Max-Min normalization: train them, look inside, reproduce the paper.",
    version_flags=["--version"],
    error_formatter=_said,
    suppress_keyboard_interrupt=False,  # it says how to go on
    # A file may be called "[1].png", and --empty-images is no flag that anybody wants.
    default_parameter=Parameter(json_list=False, negative_iterable=""),
)
use, inside, paper, data = (
    Group.create_ordered(title) for title in ("Train and use", "Look inside", "Reproduce the paper", "Data and speed")
)


class _Verb(CommandSpec):
    """One line among the verbs of a list; its whole docstring once it is loaded, and so asked itself."""

    def resolve(self, parent_app: App) -> App:
        """Load the verb."""
        verb = super().resolve(parent_app)
        verb.help = None
        return verb


def _verb(parent: App, where: str, name: str, help: str, group: Group | None = None) -> None:
    parent._commands[name] = _Verb(f"maxmincaps.cli.{where}", name, help=help, group=group)


_verb(app, "train:train", "train", "Train a network and leave a record of it.", use)
_verb(app, "train:quickstart", "quickstart", "Train Max-Min and Softmax on 4,000 digits and compare them.", use)
_verb(app, "recipe:recipe", "recipe", "Show the recipes that come with the package.", use)
_verb(app, "runs:evaluate", "evaluate", "Measure a run's network on its test set again.", use)
_verb(app, "runs:predict", "predict", "Classify image files.", use)
_verb(app, "runs:runs", "runs", "List the records below a folder.", use)
_verb(app, "runs:verify", "verify", "Check that a record is whole and that its figures are true.", use)
_verb(app, "export:export", "export", "Write a trained network as ONNX, torch program, hub folder or record.", use)

_verb(app, "explorer:app", "app", "Open the explorer: draw a digit and watch it being routed.", inside)
look_app = App(name="look", help="Print what a trained network does: couplings, lengths, errors.", group=inside)
_verb(look_app, "analysis:evolution", "evolution", "Logits and couplings, iteration by iteration (figures 2 and 3).")
_verb(look_app, "analysis:rows", "rows", "Three children's logits and couplings over the parents (figure 4).")
_verb(look_app, "analysis:outputs", "outputs", "The class lengths of some test images (figure 5).")
_verb(look_app, "analysis:tuning", "tuning", "The mean length of each capsule for each class (figure 6).")
_verb(look_app, "analysis:misclassified", "misclassified", "The test images that a network gets wrong (figure 9).")
_verb(look_app, "analysis:vote", "vote", "Several networks together (section 6).")
app.command(look_app)
poll_app = App(name="poll", help="Put a network's errors to people (table 3, figure 10).", group=inside)
_verb(poll_app, "poll:open_", "open", "Serve the images that a vote of networks gets wrong.")
_verb(poll_app, "poll:close", "close", "Take no more answers.")
_verb(poll_app, "poll:status", "status", "Count the answers.")
_verb(poll_app, "poll:report", "report", "People beside networks, as a table and a figure.")
app.command(poll_app)

study_app = App(name="study", help="Run the paper's tables and figures.", group=paper)
_verb(study_app, "study:list_", "list", "Name all studies.")
_verb(study_app, "study:show", "show", "Say what a study claims, runs and costs.")
_verb(study_app, "study:run", "run", "Train what a study still lacks.")
_verb(study_app, "study:status", "status", "Show which runs are done.")
app.command(study_app)
_verb(app, "report:report", "report", "Build one page: each claim of the paper beside our evidence.", paper)

data_app = App(name="data", help="Fetch, check and look at the datasets.", group=data)
_verb(data_app, "data:list_", "list", "Show all datasets and whether they are on this machine.")
_verb(data_app, "data:get", "get", "Fetch datasets.")
_verb(data_app, "data:check", "check", "Verify every hash again.")
_verb(data_app, "data:show", "show", "Draw samples of each class.")
app.command(data_app)
_verb(app, "bench:bench", "bench", "Time our training step beside a textbook's, in one run.", data)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; wrong input is one line and exit code 2, never a traceback."""
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a pipe may have letters for neither bars nor check marks
            stream.reconfigure(errors="replace")
    try:
        app(arguments)
    except InputError as error:
        _fail(str(error), INPUT_ERROR)
    except KeyboardInterrupt as stop:
        _fail(str(stop) or "stopped", INTERRUPTED)
    except DivergedError as error:
        _fail(str(error), DIVERGED)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}", INPUT_ERROR)
    except (MemoryError, RuntimeError) as error:
        if not is_lack_of_memory(error):
            raise
        _fail(f"not enough memory, a smaller batch or network needs less ({str(error) or 'refused'})", INPUT_ERROR)


def _fail(message: str, code: int) -> None:
    from rich.console import Console

    Console(stderr=True, soft_wrap=True).print(_line(message))
    sys.exit(code)


def _as_ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt
