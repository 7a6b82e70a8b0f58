"""Bundles as frames: what the collector would store, without a database."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from cli.commands.bundle import read
from mlscope.tracing.batches import columns_of
from schemas.batch import QueriesAnswered, SpanKind, TraceCaptured
from schemas.level import Level
from schemas.run import RunCompleted, RunFailed
from services.analyzer.frames import SPAN_SCHEMA

_DEVICE_KINDS = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET)


@dataclass(slots=True)
class Recorded:
    """One run of a bundle: how it ended, its spans (frames.SPAN_SCHEMA and `attributes`)."""

    run: str
    level: int = 0
    spans: pl.DataFrame = field(default_factory=pl.DataFrame)
    queries: pl.DataFrame = field(default_factory=pl.DataFrame)
    conditions: dict[str, Any] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    error: str = ""


def recorded(path: Path) -> dict[str, Recorded]:
    """Return the runs of a bundle by name. Raises BundleBroken."""
    bundle = read(path)
    names = [run.run for session in bundle.plan.sessions for run in session.runs]
    return {name: _run(bundle.facts(name), name) for name in names}


def _run(facts: Iterator[Any], name: str) -> Recorded:
    found, names = Recorded(name), dict[int, str]()
    spans, queries = [], []
    for fact in facts:
        match fact:
            case TraceCaptured():
                names.update(zip(fact.name_ids, fact.name_texts, strict=True))
                spans.append(_spans(fact, names))
            case QueriesAnswered():
                queries.append(pl.DataFrame(dict(columns_of(fact))))
            case RunCompleted():
                found.level, found.caveats = int(fact.level), fact.caveats
                found.conditions = fact.conditions.model_dump()
            case RunFailed():
                found.error = f"{fact.error}: {fact.message}"
    found.spans = pl.concat(spans) if spans else pl.DataFrame()
    found.queries = pl.concat(queries) if queries else pl.DataFrame()
    return found


def _spans(fact: TraceCaptured, names: dict[int, str]) -> pl.DataFrame:
    columns = {name: list(values) for name, values in columns_of(fact).items() if len(values)}
    columns.setdefault("kind", [0] * fact.count)
    columns.setdefault("correlation", [-1] * fact.count)
    texts: list[str | None] = [None] * fact.count
    for row, text in zip(fact.attribute_rows, fact.attribute_texts, strict=True):
        texts[row] = text.decode()
    told = [json.loads(text) if text else {} for text in texts]
    on_device = [kind in _DEVICE_KINDS for kind in columns["kind"]]
    is_layer = [level == Level.FRAMEWORK for level in columns["level"]]
    threads = columns["thread"]
    columns |= {
        "run_key": [1] * fact.count,
        "name": [names[number] for number in columns["name"]],
        "layer": [t.get("index") if f else None for t, f in zip(told, is_layer, strict=True)],
        "device": [t.get("device") if d else None for t, d in zip(told, on_device, strict=True)],
        "stream": [t if d else None for t, d in zip(threads, on_device, strict=True)],
    }
    frame = pl.DataFrame({name: columns[name] for name in SPAN_SCHEMA}, schema=dict(SPAN_SCHEMA))
    absent = [
        pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name)
        for name in ("parent", "query", "correlation")
    ]
    return frame.with_columns(*absent, attributes=pl.Series(texts, dtype=pl.String))
