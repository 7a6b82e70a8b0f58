"""The grammar: every command has its help, and words of the contract are the contract's."""

import argparse
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from cli import exits
from cli.arguments import build_parser
from cli.arguments.reading import STATES
from cli.main import main
from cli.parser import parse
from schemas.status import State


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return every command's parser."""
    actions: list[Any] = build_parser()._actions
    return next(dict(each.choices) for each in actions if each.dest == "command")


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield a command's arguments and options, and those of its own commands."""
    for argument in parser._actions:
        if isinstance(argument, argparse._SubParsersAction):
            for action in argument.choices.values():
                yield from arguments_of(action)
        else:
            yield argument


def test_states_are_those_of_the_contract() -> None:
    assert get_args(State) == STATES


@pytest.mark.parametrize("name", commands())
def test_every_argument_and_option_says_what_it_is(name: str) -> None:
    unexplained = (argument for argument in arguments_of(commands()[name]) if not argument.help)
    assert [argument.dest for argument in unexplained] == []


@pytest.mark.parametrize("name", commands())
def test_every_command_describes_itself_in_a_sentence(name: str) -> None:
    description = commands()[name].description or ""
    assert (description[:1].isupper(), description[-1:]) == (True, ".")


@pytest.mark.parametrize("name", commands())
def test_a_command_s_help_fits_a_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = commands()[name].format_help()
    assert text.startswith(f"usage: mlscope {name}")
    assert max(map(len, text.splitlines())) <= 80


def test_without_a_word_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == exits.USAGE
    assert "mlscope COMMAND --help" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["help", "watch"], "usage: mlscope watch"),
        (["--version"], "mlscope 0."),
        (["help"], "usage"),
    ],
)
def test_asking_for_help_is_no_error(
    words: list[str], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == exits.OK
    assert capsys.readouterr().out.startswith(shown)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("ls models --framework onnxruntime net", "search", "net"),
        ("ls models net --framework onnxruntime", "search", "net"),
        ("ls --limit 3 evaluations --label a=b net", "search", "net"),
        ("tables e1 -o json latency memory", "names", ["latency", "memory"]),
        ("analyze -o json e1 A3", "names", ["A3"]),
        ("compare one --url nats://h two three", "others", ["three"]),
        ("artifacts put file --data . name", "name", "name"),
    ],
)
def test_options_stand_where_they_like(words: str, name: str, value: Any) -> None:
    assert getattr(parse(build_parser(), words.split()), name) == value


def test_the_help_of_import_says_what_queries_of_a_trace_are() -> None:
    told = " ".join(commands()["import"].format_help().split())
    assert 'record_function("query")' in told
    assert "record_shapes=True" in told
