"""`mlscope export`: what is said of the spans that it wrote."""

from dataclasses import replace
from pathlib import Path

from cli import exits
from cli.commands.export import limit_note, trace_summary
from mlscope.exchange.traces import Trace
from tests.cli.conftest import CommandLine
from tests.mlscope.exchange.traces import SMALL


def _of(spans: int, whole: int) -> Trace:
    run = SMALL.run.model_copy(update={"spans": whole})
    return replace(SMALL, run=run, spans=SMALL.spans[:spans])


def test_one_span_is_one() -> None:
    one, two = _of(1, 2), _of(2, 3)
    assert trace_summary(one) == f"1 span of {one.run.run}"
    assert trace_summary(two) == f"2 spans of {two.run.run}"
    assert limit_note(one).startswith("the first of 2 spans was written; ")
    assert limit_note(two).startswith("the first 2 of 3 spans were written; ")


def test_a_format_is_not_taken_for_a_file(mlscope: CommandLine) -> None:
    ended = mlscope.run("export", "abc", "-o", "json")
    assert ended.code == exits.USAGE
    assert "-o names the file to write" in ended.err
    assert not Path("json").exists()
