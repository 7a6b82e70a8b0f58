"""`mlscope export`: an evaluation's reference log, its facts, or the spans of a run as a file."""

import argparse
import json
import sys
from io import BytesIO
from pathlib import Path

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.reference_logs import log_of
from mlscope.counts import many, verb
from mlscope.exchange.formats import write_spans
from mlscope.exchange.traces import Trace
from mlscope.reproducing.logs import file_text

_NO_FILES = ("table", "json", "csv")
"""Output formats of other commands, which nobody means as a file's name."""


async def export(arguments: argparse.Namespace) -> int:
    """Write an evaluation to a file or standard output."""
    if str(arguments.out) in _NO_FILES:
        formats = "--format chrome, otlp and flow write JSON, parquet a table"
        raise Misused(f"-o {arguments.out}: -o names the file to write, e.g. run.json; {formats}")
    if arguments.limit < 0:
        raise Misused(f"--limit {arguments.limit}: expected a number of spans, or 0 for all")
    async with client_of(arguments) as client:
        if arguments.format == "log":
            log = await log_of(client, arguments.evaluation)
            repeat = f"repeat it on any cluster: mlscope reproduce {arguments.out}"
            summary = f"{many(len(log.runs), 'run')}; {repeat}"
            _write(arguments.out, file_text(log).encode(), summary)
            return exits.OK
        if arguments.format == "flow":
            facts = await client.flow(arguments.evaluation)
            lines = "".join(f"{json.dumps(fact)}\n" for fact in facts)
            _write(arguments.out, lines.encode(), many(len(facts), "fact"))
            return exits.OK
        trace = await client.trace(arguments.evaluation, arguments.of_run, arguments.limit)
    if arguments.out is None:
        content = BytesIO()  # a pipe is not seekable, which Parquet requires
        write_spans(trace, arguments.format, content)
        sys.stdout.buffer.write(content.getbuffer())
    else:
        with arguments.out.open("wb") as file:
            write_spans(trace, arguments.format, file)
        print(f"{arguments.out}: {trace_summary(trace)}")
    if trace.is_cut:
        print(limit_note(trace), file=sys.stderr)
    return exits.OK


def _write(out: Path | None, content: bytes, summary: str) -> None:
    if out is None:
        sys.stdout.buffer.write(content)
        return
    out.write_bytes(content)
    print(f"{out}: {summary}")


def trace_summary(trace: Trace) -> str:
    """Return how many spans of which run were written."""
    return f"{many(len(trace.spans), 'span')} of {trace.run.run}"


def limit_note(trace: Trace) -> str:
    """Return how many spans of a limited trace were written, and how to get more."""
    count = len(trace.spans)
    first = verb(count, "the first", f"the first {count}")
    were = verb(count, "was", "were")
    return f"{first} of {trace.run.spans} spans {were} written; --limit N writes more, 0 all"
