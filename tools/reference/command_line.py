"""The page of the command line: every command with its arguments, as `--help` prints them."""

import argparse
from collections.abc import Iterator

from cli import exits
from cli.arguments import build_parser
from tools.reference.markdown import code, table

_HEAD = """# Command line

`mlscope COMMAND --help` prints the same text. Exit codes are at the end of this page.

"""


def command_line_page() -> str:
    """Return the page as Markdown."""
    sections: list[str] = []
    for name, parser in _commands(build_parser()):
        arguments = [
            _cells(action)
            for action in parser._actions  # noqa: SLF001
            if not isinstance(action, argparse._HelpAction)  # noqa: SLF001
        ]
        description = (parser.description or "").strip()
        rows = (
            table(("Argument", "Meaning"), arguments) if arguments else "It takes no arguments.\n"
        )
        epilog = f"\n{parser.epilog}\n" if parser.epilog else ""
        sections.append(f"## {name}\n\n{description}\n\n{rows}{epilog}")
    exit_codes = ((str(number), meaning) for number, meaning in exits.MEANINGS.items())
    text = "\n".join(sections)
    return f"{_HEAD}{text}\n## Exit codes\n\n{table(('Code', 'Meaning'), exit_codes)}"


def _commands(
    parser: argparse.ArgumentParser, prefix: str = "mlscope"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command that does something, with its parser, in the order of `--help`."""
    for action in parser._actions:  # noqa: SLF001 (argparse has no public list of its commands)
        if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            continue
        for name, command in action.choices.items():
            nested = list(_commands(command, f"{prefix} {name}"))
            yield from nested or [(f"{prefix} {name}", command)]


def _cells(action: argparse.Action) -> tuple[str, str]:
    """Return how an argument is written, and what it means.

    As in `--help`, choices stand in place of a metavar; else the text names those it lacks.
    """
    choices = [str(choice) for choice in action.choices or ()]
    listed = f"{{{','.join(choices)}}}" if choices else action.dest.upper()
    metavar = action.metavar or listed
    placeholder = " ".join(metavar) if isinstance(metavar, tuple) else str(metavar)
    options = ", ".join(action.option_strings)
    invocation = options if options and action.nargs == 0 else f"{options} {placeholder}".strip()
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    if action.metavar and not all(choice in text for choice in choices):
        text = f"{text}; one of {', '.join(choices)}".removeprefix("; ")
    return code(invocation), text
