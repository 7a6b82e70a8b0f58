"""A parser that explains a usage error in one line and suggests a correction."""

import argparse
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, TypeAlias

from cli import exits

Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001

_INVALID_CHOICE = re.compile(
    r"argument (?P<name>.*?): invalid choice: (?P<value>.*?) \(choose from (?P<choices>.*)\)"
)
_INVALID_NUMBER = re.compile(
    r"argument (?P<name>.*?): invalid (?P<kind>int|float) value: (?P<value>.*)"
)
_NUMBERS = {"int": "a whole number", "float": "a number"}
_HELP_COLUMN = 26
_VARIABLE_LENGTH = (argparse.OPTIONAL, argparse.ZERO_OR_MORE, argparse.ONE_OR_MORE)


class Parser(argparse.ArgumentParser):
    """An argument parser that stores itself as `parser` in the namespace.

    With subcommands, `parser` is the parser of the subcommand on the command line.
    """

    def __init__(self, **settings: Any) -> None:
        """Pass `settings` to `ArgumentParser`; options are never abbreviated."""
        super().__init__(
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.HelpFormatter(
                prog, max_help_position=_HELP_COLUMN
            ),
            **settings,
        )
        self.set_defaults(parser=self)
        self._is_intermixing = False

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the arguments and the unknown words; options may stand between arguments.

        argparse itself leaves an optional argument empty when an option precedes it.
        """
        has_variable_length = any(
            action.nargs in _VARIABLE_LENGTH and not action.option_strings
            for action in self._actions
        )
        if self._is_intermixing or not has_variable_length:
            return super().parse_known_args(args, namespace)
        self._is_intermixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixing = False

    def completions(self, typed: Sequence[str]) -> tuple[list[str], str]:
        """Return what the last word `typed` may become, and the metavar of the argument it is.

        The words that fit are commands, options or choices; for a value without choices there are
        none, and the metavar says what it is. A shell may part `--option=value` at the sign.
        """
        *before, current = typed or [""]
        options, action, arguments = self.awaited_after(before)
        current = "" if current == "=" else current
        if action is None and current.startswith("-"):
            return [name for name in options if name.startswith(max(current, "--"))], ""
        action = action or next(iter(arguments), None)
        if action is None:
            return [], ""
        choices = [str(choice) for choice in action.choices or ()]
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        return [choice for choice in choices if choice.startswith(current)], metavar

    def awaited_after(
        self, before: Sequence[str]
    ) -> tuple[Mapping[str, argparse.Action], argparse.Action | None, list[argparse.Action]]:
        """Return what may follow the words `before`: options, and an option's value or arguments.

        The options by name are those of the command that the words name, none of an unknown one.
        The second is the option that awaits its value, the third are the arguments still open.
        """
        action: argparse.Action | None = None
        arguments = [action for action in self._actions if not action.option_strings]
        for place, word in enumerate(before):
            if action is not None and action.option_strings:
                action = action if word == "=" else None
            elif word.startswith("-"):
                option = self._option_string_actions.get(word)
                action = option if option is not None and option.nargs != 0 else None
            elif arguments:
                argument = arguments[0]
                if isinstance(argument.choices, dict):
                    parser = argument.choices.get(word)
                    if not isinstance(parser, Parser):
                        return {}, None, []
                    return parser.awaited_after(before[place + 1 :])
                arguments = arguments if argument.nargs in ("*", "+") else arguments[1:]
        return self._option_string_actions, action, arguments

    def error(self, message: str) -> NoReturn:
        """Print the error and end with the exit code for wrong usage."""
        invalid = _INVALID_CHOICE.fullmatch(message)
        if invalid is not None:
            choices = [choice.strip(" '") for choice in invalid["choices"].split(",")]
            value = invalid["value"].strip("'")
            hint = _suggestion(value, choices) or f"; choose from: {', '.join(choices)}"
            message = f"{invalid['name']}: unknown value {value!r}{hint}"
        elif (number := _INVALID_NUMBER.fullmatch(message)) is not None:
            expected = _NUMBERS[number["kind"]]
            message = f"{number['name']}: expected {expected}, found {number['value']}"
        self.exit(exits.USAGE, f"{self.prog}: {message}\n  see `{self.prog} --help`\n")

    def refuse_unknown(self, arguments: Sequence[str]) -> NoReturn:
        """End because of `arguments` that the command does not have."""
        option = arguments[0].partition("=")[0]
        if not option.startswith("-"):
            self.error(f"unexpected argument {option!r}")
        options = re.findall(r"(?<![\w-])--[a-z][a-z-]*", self.format_help())
        self.error(f"unknown option {option}{_suggestion(option, options)}")


def add_described(commands: Parsers, name: str, text: str) -> argparse.ArgumentParser:
    """Add a parser to `commands`: `text` is the help of the word `name`, and its description."""
    return commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments in `argv`; the command's own `Parser` reports usage errors."""
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        arguments.parser.refuse_unknown(unknown)
    return arguments


def _suggestion(misspelt: str, candidates: Sequence[str]) -> str:
    matches = get_close_matches(misspelt, candidates, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""
