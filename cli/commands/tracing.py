"""`mlscope export --format`: a run's spans, or an evaluation's facts, as a file of another tool."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import IO

from cli import exits
from cli.commands.asking import client_of
from cli.failures import Misused
from mlscope.counts import many, verb
from mlscope.exchange.traces import Trace

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "chrome": "chrome",
        "perfetto": "perfetto",
        "speedscope": "speedscope",
        "otlp": "otlp",
        "parquet": "parquet",
        "flamegraph": "folded",
    }
)
"""Formats of spans, each by the module of mlscope.exchange that writes it."""

FLOW = "flow"


def export(arguments: argparse.Namespace) -> int:
    """Write an evaluation in another tool's format."""
    return asyncio.run(_export(arguments))


async def _export(arguments: argparse.Namespace) -> int:
    if arguments.limit < 0:
        raise Misused("--limit is a number of spans, 0 for all")
    async with client_of(arguments) as client:
        if arguments.format == FLOW:
            facts = await client.flow(arguments.evaluation)
            body = "".join(f"{json.dumps(fact)}\n" for fact in facts).encode()
            _put(arguments.out, lambda file: file.write(body), many(len(facts), "fact"))
        else:
            trace = await client.trace(arguments.evaluation, arguments.of_run, arguments.limit)
            _put(arguments.out, lambda file: write(trace, arguments.format, file), _said(trace))
            if trace.is_cut:
                print(_cut(trace), file=sys.stderr)
    return exits.OK


def _put(out: Path | None, write: Callable[[IO[bytes]], object], said: str) -> None:
    """Have a file written, or standard output."""
    if out is None:
        body = BytesIO()  # a pipe can't be sought in, as Parquet wants
        write(body)
        sys.stdout.buffer.write(body.getbuffer())
        return
    with out.open("wb") as file:
        write(file)
    print(f"{out}: {said}")


def _said(trace: Trace) -> str:
    return f"{many(len(trace.spans), 'span')} of {trace.run.run}"


def _cut(trace: Trace) -> str:
    count, whole = len(trace.spans), trace.run.spans
    first = verb(count, "the first", f"the first {count}")
    were = verb(count, "was", "were")
    return f"{first} of {whole} spans {were} written; --limit takes more, 0 all of them"


def write(trace: Trace, form: str, file: IO[bytes]) -> None:
    """Write a trace in a format of `FORMATS`."""
    import_module(f"mlscope.exchange.{FORMATS[form]}").write(trace, file)
