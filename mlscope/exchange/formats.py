"""Formats that spans of a run can be exported in: the file's suffix, its media type, its writer."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import IO

from mlscope.exchange.traces import Trace


@dataclass(frozen=True, slots=True)
class SpanFormat:
    """A format: the module of mlscope.exchange that writes it, and how such a file is called."""

    module: str
    suffix: str
    media_type: str
    title: str


SPAN_FORMATS: Mapping[str, SpanFormat] = MappingProxyType(
    {
        "chrome": SpanFormat(
            "chrome", "trace.json", "application/json", "Chrome trace (Perfetto, HTA)"
        ),
        "perfetto": SpanFormat(
            "perfetto", "pftrace", "application/octet-stream", "Perfetto protobuf"
        ),
        "speedscope": SpanFormat("speedscope", "speedscope.json", "application/json", "speedscope"),
        "otlp": SpanFormat(
            "otlp", "otlp.json", "application/json", "OpenTelemetry (Jaeger, Tempo)"
        ),
        "parquet": SpanFormat(
            "parquet", "parquet", "application/vnd.apache.parquet", "Parquet table of spans"
        ),
        "flamegraph": SpanFormat("folded", "folded.txt", "text/plain", "folded stacks"),
    }
)
"""Formats of spans by name."""


def write_spans(trace: Trace, form: str, file: IO[bytes]) -> None:
    """Write `trace` to `file` in the `form` that is a name in `SPAN_FORMATS`."""
    import_module(f"mlscope.exchange.{SPAN_FORMATS[form].module}").write(trace, file)
