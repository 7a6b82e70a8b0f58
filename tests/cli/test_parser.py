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
    run.add_argument("--count", type=int)
    run.add_argument("--share", type=float)
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
        ("wach", "tool: COMMAND: unknown value 'wach'; did you mean watch?"),
        ("zzz", "tool: COMMAND: unknown value 'zzz'; choose from: run, watch"),
        ("run m --batchsize=2", "tool run: unknown option --batchsize; did you mean --batch-size?"),
        ("run m --zzz", "tool run: unknown option --zzz"),
        ("run m n", "tool run: unexpected argument 'n'"),
        ("run m --form cvs", "tool run: --form: unknown value 'cvs'; did you mean csv?"),
        ("run m --count 1.5", "tool run: --count: expected a whole number, found '1.5'"),
        ("run m --share half", "tool run: --share: expected a number, found 'half'"),
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


@pytest.mark.parametrize("nargs", ["?", "*", "+"])
@pytest.mark.parametrize("words", ["a b --form csv", "a --form csv b", "--form csv a b"])
def test_options_may_stand_between_arguments(words: str, nargs: str) -> None:
    one = Parser(prog="tool")
    one.add_argument("kind", choices=("a", "c"))
    one.add_argument("more", nargs=nargs, default="")
    one.add_argument("--form", choices=("json", "csv"))
    one.add_argument("--label", action="append", default=[])
    arguments = parse(one, words.split())
    assert (arguments.kind, arguments.form) == ("a", "csv")
    assert list(arguments.more) == ["b"]
    assert parse(one, ["a", "--label", "x", "b", "--label", "y"]).label == ["x", "y"]


def test_what_may_be_left_out_still_may() -> None:
    one = Parser(prog="tool")
    one.add_argument("kind")
    one.add_argument("word", nargs="?", default="none")
    one.add_argument("--form")
    assert parse(one, ["--form", "x", "a"]).word == "none"


def test_one_word_too_many_is_still_named(capsys: pytest.CaptureFixture[str]) -> None:
    one = Parser(prog="tool")
    one.add_argument("kind")
    one.add_argument("word", nargs="?")
    one.add_argument("--form")
    assert "unexpected argument 'c'" in said(one, "a --form x b c", capsys)
    assert "unknown option --from; did you mean --form?" in said(one, "a --from x", capsys)
