"""`mlscope export --format`: a run's spans, or an evaluation's facts, as a file of another tool."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from io import BytesIO
from types import MappingProxyType
from typing import IO

from cli import exits
from cli.commands.asking import client_of
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
    async with client_of(arguments) as client:
        if arguments.format == FLOW:
            facts = await client.flow(arguments.evaluation)
            body = "".join(f"{json.dumps(fact)}\n" for fact in facts).encode()
            said = f"{len(facts)} facts"
        else:
            trace = await client.trace(arguments.evaluation, arguments.of_run)
            body = written(trace, arguments.format)
            said = f"{len(trace.spans)} spans of {trace.run.run}"
    if arguments.out is None:
        sys.stdout.buffer.write(body)
    else:
        arguments.out.write_bytes(body)
        print(f"{arguments.out}: {said}")
    return exits.OK


def written(trace: Trace, form: str) -> bytes:
    """Return a trace in a format of `FORMATS`."""
    write: Callable[[Trace, IO[bytes]], None] = import_module(
        f"mlscope.exchange.{FORMATS[form]}"
    ).write
    file = BytesIO()
    write(trace, file)
    return file.getvalue()
