"""A parser that says in one line what is wrong, and what was perhaps meant."""

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from cli import exits

_CHOICE = re.compile(
    r"argument (?P<name>.*?): invalid choice: (?P<found>.*?) \(choose from (?P<all>.*)\)"
)
_HELP_COLUMN = 26
_LEFT_OUT = (argparse.OPTIONAL, argparse.ZERO_OR_MORE, argparse.ONE_OR_MORE)
"""Arguments of which there may be none, or more than there are before an option."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose namespace's `parser` is the one of the command that was named."""

    def __init__(self, **settings: Any) -> None:
        """Take what `ArgumentParser` takes; options are never abbreviated."""
        super().__init__(allow_abbrev=False, formatter_class=_formatter, **settings)
        self.set_defaults(parser=self)
        self._is_mixing = False

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the arguments and the words nobody takes; options may stand between the former.

        argparse itself gives an argument that may be left out nothing where an option comes first.
        """
        may_be_left_out = any(
            action.nargs in _LEFT_OUT and not action.option_strings for action in self._actions
        )
        if self._is_mixing or not may_be_left_out:
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False

    def error(self, message: str) -> NoReturn:
        """End with the exit code for wrong usage."""
        text = _readable(message)
        self.exit(exits.USAGE, f"{self.prog}: {text}\n  see `{self.prog} --help`\n")

    def refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        """End because of words that no option or argument takes."""
        word = words[0].partition("=")[0]
        if not word.startswith("-"):
            self.error(f"{word!r} is one argument too many")
        self.error(f"no option {word}{_near(word, self._options())}")

    def _options(self) -> list[str]:
        return re.findall(r"(?<![\w-])--[a-z][a-z-]*", self.format_help())


def parse(parser: argparse.ArgumentParser, words: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; what is wrong is told by the command's own `Parser`."""
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        arguments.parser.refuse_unknown(unknown)
    return arguments


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, max_help_position=_HELP_COLUMN)


def _readable(message: str) -> str:
    """Return argparse's words for a wrong choice as a question, and others as they are."""
    wrong = _CHOICE.fullmatch(message)
    if wrong is None:
        return message
    known = [each.strip(" '") for each in wrong["all"].split(",")]
    found = wrong["found"].strip("'")
    near = _near(found, known) or f"; there are: {', '.join(known)}"
    return f"{wrong['name']}: nothing is called {found!r}{near}"


def _near(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
