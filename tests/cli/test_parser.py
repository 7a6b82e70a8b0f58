"""Wrong words end with one line that says what was perhaps meant."""

import argparse

import pytest

from cli import exits
from cli.parser import Parser, parse


@pytest.fixture
def parser() -> Parser:
    whole = Parser(prog="tool")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser("run")
    run.add_argument("model", metavar="MODEL")
    run.add_argument("--batch-size", default="")
    run.add_argument("--form", choices=("json", "csv"))
    commands.add_parser("watch")
    return whole


def said(parser: argparse.ArgumentParser, words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        parse(parser, words.split())
    assert ended.value.code == exits.USAGE
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("wach", "tool: COMMAND: nothing is called 'wach'; did you mean watch?"),
        ("zzz", "tool: COMMAND: nothing is called 'zzz'; there are: run, watch"),
        ("run m --batchsize=2", "tool run: no option --batchsize; did you mean --batch-size?"),
        ("run m --zzz", "tool run: no option --zzz"),
        ("run m n", "tool run: 'n' is one argument too many"),
        ("run m --form cvs", "tool run: --form: nothing is called 'cvs'; did you mean csv?"),
        ("run", "tool run: the following arguments are required: MODEL"),
    ],
)
def test_a_wrong_word_is_named_by_its_command(
    parser: Parser, words: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = said(parser, words, capsys).splitlines()
    assert first == line
    assert second == f"  see `{line.partition(':')[0]} --help`"


def test_options_are_not_abbreviated(parser: Parser, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--batch-size" in said(parser, "run m --batch 2", capsys)


def test_right_words_are_taken(parser: Parser) -> None:
    arguments = parse(parser, ["run", "m", "--batch-size", "2"])
    assert (arguments.model, arguments.batch_size, arguments.form) == ("m", "2", None)
