"""Commands that messages and docstrings name: the command line has them, with their options."""

import re
import shlex
from contextlib import suppress
from pathlib import Path

import pytest

from cli.arguments import build_parser

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`mlscope ([a-z][^`]*)`")
JOINED = re.compile(r'"\n +f?"')
"""Between two parts of one text."""
PLACES = re.compile(r"\{[^}]*\}|\bNAME\b|(?<=[a-z])\|[\w|]+")
"""What stands for a value, and all but the first of several words to choose from."""


def test_no_message_names_a_command_or_option_that_there_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser, files = build_parser(), [*ROOT.glob("cli/**/*.py"), *ROOT.glob("services/**/*.py")]
    files += [*ROOT.glob("mlscope/**/*.py"), *ROOT.glob("schemas/**/*.py")]
    texts = [JOINED.sub("", file.read_text("utf-8")) for file in files]
    named = {command for text in texts for command in NAMED.findall(text)}
    assert {"ls models", "show {evaluation}", "run MODEL --device cpu"} <= named
    for command in named:
        with suppress(SystemExit):  # a command may be named without its arguments
            parser.parse_args(shlex.split(PLACES.sub(place_of, command)))
    assert [line for line in capsys.readouterr().err.splitlines() if "unknown" in line] == []


def place_of(match: re.Match[str]) -> str:
    """Return a value where one stands, and nothing for a further word to choose from."""
    return "" if match[0].startswith("|") else "agent"
