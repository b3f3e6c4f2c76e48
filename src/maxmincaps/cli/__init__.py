"""The command line. Commands are imported when they are called, so that `--help` answers without loading torch."""

import io
import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from cyclopts import App, CycloptsError, Group, MissingArgumentError, Parameter, UnknownCommandError, UnknownOptionError
from rich.text import Text

from maxmincaps.errors import DivergedError, InputError, is_lack_of_memory, one_line
from maxmincaps.training.environment import keep_large_blocks

INPUT_ERROR, DIVERGED, INTERRUPTED = 2, 3, 130  # exit codes: wrong input, a training that diverged, Ctrl-C

SYNONYMS = {
    "--lr": "--learning-rate",
    "--batch": "--batch-size",
    "--bs": "--batch-size",
    "--data": "--dataset",
    "--norm": "--normalization",
    "--format": "--to",
    "--output": "--out",
    "--routings": "--iterations",
    "--checkpoint": "--weights",
}
"""Options that other tools have, with our name for each. They are suggested where a command has that option."""


def _format_error(error: CycloptsError) -> Text:
    """Describe in one line what is wrong with the arguments."""
    if isinstance(error, UnknownCommandError):
        return _line(_unknown_command(error))
    if isinstance(error, UnknownOptionError):
        return _line(_unknown_option(error))
    if isinstance(error, MissingArgumentError) and error.argument and not error.argument.tokens and not error.keyword:
        # Positional arguments are named by their place; the library's message would ask for an option instead.
        command, name = " ".join(error.command_chain or ()), error.argument.name.lstrip("-").upper()
        return _line(f"{command}: expected {name}, found nothing; see maxmincaps {command} --help")
    # Imported here, as they would be a third of the time in which `--help` answers.
    from pydantic import ValidationError

    from maxmincaps.recipe import in_words

    cause = error.__cause__ or error.__context__
    return _line(in_words(cause) if isinstance(cause, ValidationError) else str(error))


def _unknown_command(error: UnknownCommandError) -> str:
    """List the commands. The library's own message would import all of them, and torch with them."""
    word = (error.unused_tokens or [""])[0]
    names = [name for name in error.app or () if not name.startswith("-")]
    near = "".join(f"; did you mean {name}?" for name in get_close_matches(word, names, 1))
    return f"no command is called {word!r:.100}{near or '; there are ' + ', '.join(names)}"


def _unknown_option(error: UnknownOptionError) -> str:
    word = (error.token.keyword or error.token.value).partition("=")[0]
    names = [name for argument in error.argument_collection if argument.parse for name in argument.names]
    near = [SYNONYMS[word]] if SYNONYMS.get(word) in names else get_close_matches(word, names, 1)
    command = " ".join(error.command_chain or ())
    found = f"did you mean {near[0]}?" if near else f"see maxmincaps {command} --help"
    return f"{command}: no option is called {word:.100}; {found}"


def _line(message: str) -> Text:
    return Text.assemble(("maxmincaps: ", "bold red"), one_line(message, 10_000))


app = App(
    name="maxmincaps",
    help="Capsule networks with Max-Min normalization: train them, look inside, reproduce the paper.",
    help_epilogue="`--import MODULE` (a module's name or a .py file) works with every command. It runs that module "
    "first, so that a normalization which it registers can be used.",
    version_flags=["--version"],
    error_formatter=_format_error,
    suppress_keyboard_interrupt=False,  # its message states how to continue
    # A file may be called "[1].png", and flags such as --empty-images would be useless.
    default_parameter=Parameter(json_list=False, negative_iterable=""),
)
_USE, _INSIDE, _PAPER, _DATA = (
    Group.create_ordered(title) for title in ("Train and use", "Look inside", "Reproduce the paper", "Data and speed")
)
_APPS = {
    "": app,
    "look": App(name="look", help="Print what a trained network does: couplings, lengths, errors.", group=_INSIDE),
    "poll": App(name="poll", help="Ask people about a network's errors (table 3, figure 10).", group=_INSIDE),
    "study": App(name="study", help="Run the paper's tables and figures, or your own study file.", group=_PAPER),
    "data": App(name="data", help="Download, check and show the datasets.", group=_DATA),
}
_COMMANDS = (
    ("train", "train:train", _USE, "Train a network and write its run folder."),
    ("quickstart", "train:quickstart", _USE, "Train Max-Min and Softmax on 4,000 digits and compare them."),
    ("recipe", "runs:recipe", _USE, "Show the recipes that come with the package."),
    ("evaluate", "predict:evaluate", _USE, "Evaluate a run's network on its test set or on other images."),
    ("predict", "predict:predict", _USE, "Classify image files or folders of them."),
    ("runs", "runs:runs", _USE, "List the runs below a folder."),
    ("verify", "predict:verify", _USE, "Check that a run folder is complete and its accuracies can be reproduced."),
    ("export", "predict:export", _USE, "Write a trained network as ONNX, torch program, hub folder or small run."),
    ("app", "pages:app", _INSIDE, "Serve the explorer: draw or upload an image and see how it is routed."),
    ("look evolution", "look:evolution", None, "Logits and couplings, iteration by iteration (figures 2 and 3)."),
    ("look rows", "look:rows", None, "Three children's logits and couplings over the parents (figure 4)."),
    ("look outputs", "look:outputs", None, "The class lengths of some test images (figure 5)."),
    ("look tuning", "look:tuning", None, "The mean length of each class capsule for each true class (figure 6)."),
    ("look misclassified", "look:misclassified", None, "The test images that a network gets wrong (figure 9)."),
    ("look vote", "look:vote", None, "Majority vote of several networks (section 6)."),
    ("poll open", "pages:open_", None, "Serve the images that a majority vote of networks gets wrong."),
    ("poll close", "pages:close", None, "Stop taking answers."),
    ("poll status", "pages:status", None, "Count the answers."),
    ("poll report", "pages:report", None, "Compare people with networks in a table and a figure."),
    ("study list", "study:list_", None, "List all studies."),
    ("study show", "study:show", None, "Show what a study claims, runs and costs."),
    ("study run", "study:run", None, "Train the missing runs of a study."),
    ("study status", "study:status", None, "Show which runs of a study are finished."),
    ("study report", "study:report", None, "Print the accuracies of each line of a study."),
    ("study collect", "study:collect", None, "Copy the finished runs of a study without weights, to commit them."),
    ("report", "runs:report", _PAPER, "Build one page: the paper's claims with verdicts, figures, tables."),
    ("data list", "data:list_", None, "Show all datasets and whether they are on this machine."),
    ("data get", "data:get", None, "Download datasets and verify them."),
    ("data check", "data:check", None, "Verify the hashes of all files."),
    ("data show", "data:show", None, "Draw samples of each class."),
    ("bench", "bench:bench", _DATA, "Time our training step against a textbook implementation."),
    ("check", "bench:check", _DATA, "Check this installation on a device and write a report."),
)
"""Each command: its name, the function, its group and its description."""
for _name, _path, _group, _help in _COMMANDS:
    _parent, _, _last = _name.rpartition(" ")
    _APPS[_parent].command(f"maxmincaps.cli.{_path}", name=_last, help=_help, group=_group)
for _child in list(_APPS.values())[1:]:
    app.command(_child)

imported_modules: list[str] = []  # what `--import` named in this process. Workers of a study import it too


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command with the words of this process. Wrong input prints one line and exits with code 2."""
    _prepare_streams()
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    keep_large_blocks()
    try:
        words = _import_named_modules(sys.argv[1:] if arguments is None else arguments)
        for command in app.parse_commands(words)[1]:
            if command.default_command is not None:
                command.help = None  # so that its own page shows the whole docstring, not the line of the list
        try:
            app(words)
        finally:
            sys.stdout.flush()
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
        _fail(f"not enough memory ({str(error) or 'refused'}); use a smaller batch or a smaller network", INPUT_ERROR)


def _prepare_streams() -> None:
    """Replace closed streams by the null device, and print a question mark where a pipe lacks a letter."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _import_named_modules(arguments: Sequence[str]) -> list[str]:
    """Import what `--import` names, and return the other arguments."""
    words, rest = list(arguments), []
    imported_modules.clear()
    while words and words[0] != "--":
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name != "--import":
            rest.append(word)
            continue
        if not equals and not words:
            raise InputError("--import: expected the name of a module or a .py file, found nothing")
        module = value if equals else words.pop(0)
        from maxmincaps.studies.study import import_user_module

        import_user_module(module)
        imported_modules.append(str(Path(module).resolve()) if module.endswith(".py") else module)
    return rest + words


def _fail(message: str, code: int) -> None:
    from rich.console import Console

    Console(stderr=True, soft_wrap=True).print(_line(message))
    sys.exit(code)


def _as_ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt
