"""Bundles as the analyzer's frames: what the collector would store, without a database."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from cli.offline.bundle import read
from mlscope.tracing.batches import columns_of
from schemas.batch import QueriesAnswered, SpanKind, TraceCaptured
from schemas.level import Level
from schemas.run import RunCompleted, RunFailed
from services.analyzer.frames.devices import DEVICE_ATTRIBUTE_SCHEMA
from services.analyzer.frames.evaluation import Frames, Run, RunRow
from services.analyzer.frames.row_schemas import (
    LAYER_SCHEMA,
    OUTPUT_SCHEMA,
    QUERY_SCHEMA,
    SERIES_SCHEMA,
    SPAN_SCHEMA,
)

_DEVICE_KINDS = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET)
_STAMPS = ("due_ns", "issued_ns", "started_ns", "ended_ns", "service_ns", "failed")


def frames_of(*paths: Path) -> Frames:
    """Return the runs of bundles of one model as one evaluation's frames. Raises BundleBroken."""
    runs = [run for path in paths for run in _runs(path)]
    numbered = []
    for number, run in enumerate(runs, start=1):
        key = pl.lit(number, pl.Int64).alias("run_key")
        frames = {
            name: getattr(run, name).with_columns(key) for name in ("queries", "spans", "layers")
        }
        numbered.append(replace(run, row=replace(run.row, run_key=number), **frames))
    return Frames("bundles", tuple(numbered), tuple(run.row for run in numbered))


def _runs(path: Path) -> Iterator[Run]:
    bundle = read(path)
    for session in bundle.plan.sessions:
        for plan in session.runs:
            row = RunRow(
                run_key=0,
                run=plan.run,
                agent=session.agent,
                session=session.session,
                scenario=plan.scenario,
                parameters=plan.parameters,
                level_asked=int(plan.level),
                batch_size=session.batch_size,
                model=bundle.plan.subject.model.name,
                framework=bundle.plan.subject.framework,
                device=bundle.plan.subject.device,
                variant=session.variant,
            )
            yield _run(bundle.facts(plan.run), row)


def _run(facts: Iterator[Any], row: RunRow) -> Run:
    names = dict[int, str]()
    spans: list[pl.DataFrame] = []
    queries: list[pl.DataFrame] = []
    for fact in facts:
        match fact:
            case TraceCaptured():
                names.update(zip(fact.name_ids, fact.name_texts, strict=True))
                spans.append(_spans(fact, names))
            case QueriesAnswered():
                queries.append(_queries(fact))
            case RunCompleted():
                row = replace(
                    row,
                    level=int(fact.level),
                    level_note=fact.level_note,
                    framework_version=fact.conditions.framework_version,
                    conditions=fact.conditions.model_dump(),
                    caveats=fact.caveats,
                    spans=fact.tally.spans,
                    queries=fact.tally.queries,
                    dropped_records=fact.tally.dropped_records,
                    blocks=[block.model_dump() for block in fact.blocks],
                )
            case RunFailed():
                row = replace(row, end="failed", outcome="failed", error=fact.error)
    all_spans = pl.concat(spans) if spans else _spans_of({}, [])
    return Run(
        row,
        queries=pl.concat(queries) if queries else pl.DataFrame(schema=dict(QUERY_SCHEMA)),
        spans=all_spans.drop("attributes"),
        layers=_layers(all_spans),
        outputs=pl.DataFrame(schema=dict(OUTPUT_SCHEMA)),
        device_attributes=_device_attributes(all_spans),
        named_layers=_named(all_spans),
        series=_series(all_spans),
    )


@lru_cache(maxsize=1 << 16)
def _parsed(text: str | None) -> Mapping[str, Any]:
    """Return attributes; those of a layer are the same in each query."""
    attributes: dict[str, Any] = json.loads(text) if text else {}
    return attributes


def _attributes_of(frame: pl.DataFrame) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for span, text in frame.select("span", "attributes").iter_rows():
        yield span, _parsed(text)


def _layers(spans: pl.DataFrame) -> pl.DataFrame:
    first = spans.filter(pl.col("level") == Level.FRAMEWORK).unique("layer", keep="first")
    columns = set(LAYER_SCHEMA) - {"run_key", "layer", "name", "shape", "original"}
    rows = []
    for (_, attributes), name in zip(_attributes_of(first), first["name"], strict=True):
        texts = {field: json.dumps(attributes.get(field)) for field in ("shape", "original")}
        values = {column: attributes.get(column) for column in columns}
        rows.append({"layer": attributes.get("index"), "name": name, **values, **texts})
    frame = pl.DataFrame(rows, schema={k: v for k, v in LAYER_SCHEMA.items() if k != "run_key"})
    return frame.with_columns(pl.lit(0, pl.Int64).alias("run_key")).select(*LAYER_SCHEMA)


def _series(spans: pl.DataFrame) -> pl.DataFrame:
    """Return what was sampled (SERIES_SCHEMA), in the order of time; what has no value is none."""
    sampled = spans.filter(pl.col("kind") == int(SpanKind.SAMPLE)).sort("start_ns")
    rows = [
        (
            name,
            at_ns,
            block,
            attributes.get("device"),
            attributes["value"],
            attributes.get("unit", ""),
            counted,
        )
        for (name, at_ns, block), (_, attributes) in zip(
            sampled.select("name", "start_ns", "block").iter_rows(),
            _attributes_of(sampled),
            strict=True,
        )
        if isinstance(attributes.get("value"), int | float)
        for counted in [attributes.get("counted_share")]
    ]
    return pl.DataFrame(rows, schema=dict(SERIES_SCHEMA), orient="row")


def _device_attributes(spans: pl.DataFrame) -> pl.DataFrame:
    devices = spans.filter(pl.col("kind").is_in(_DEVICE_KINDS))
    rows = [
        {
            "span": span,
            **{name: attributes.get(name) for name in DEVICE_ATTRIBUTE_SCHEMA if name != "span"},
        }
        for span, attributes in _attributes_of(devices)
        if attributes.keys() & {"graph_node", "copy_kind", "flops"}
    ]
    return pl.DataFrame(rows, schema=dict(DEVICE_ATTRIBUTE_SCHEMA))


def _named(spans: pl.DataFrame) -> dict[int, str]:
    devices = spans.filter(pl.col("kind").is_in(_DEVICE_KINDS))
    return {
        span: attributes["layer"]
        for span, attributes in _attributes_of(devices)
        if attributes.get("layer")
    }


def _queries(fact: QueriesAnswered) -> pl.DataFrame:
    columns = {name: list(values) for name, values in columns_of(fact).items() if len(values)}
    columns["run_key"] = [0] * fact.count
    columns.setdefault("failed", [-1] * fact.count)
    frame = pl.DataFrame({name: columns[name] for name in QUERY_SCHEMA}, schema=dict(QUERY_SCHEMA))
    absent = [pl.when(pl.col(stamp) >= 0).then(pl.col(stamp)).alias(stamp) for stamp in _STAMPS]
    return frame.with_columns(*absent)


def _spans(fact: TraceCaptured, names: dict[int, str]) -> pl.DataFrame:
    columns = {name: list(values) for name, values in columns_of(fact).items() if len(values)}
    columns.setdefault("kind", [0] * fact.count)
    columns.setdefault("correlation", [-1] * fact.count)
    columns["name"] = [names[number] for number in columns["name"]]
    texts: list[str | None] = [None] * fact.count
    for row, text in zip(fact.attribute_rows, fact.attribute_texts, strict=True):
        texts[row] = text.decode()
    return _spans_of(columns, texts)


def _spans_of(columns: dict[str, list[Any]], texts: list[str | None]) -> pl.DataFrame:
    columns = columns or {name: [] for name in SPAN_SCHEMA}
    attributes = [_parsed(text) for text in texts]
    on_device = [kind in _DEVICE_KINDS for kind in columns["kind"]]
    is_layer = [level == Level.FRAMEWORK for level in columns["level"]]
    columns |= {
        "run_key": [0] * len(texts),
        "layer": [t.get("index") if f else None for t, f in zip(attributes, is_layer, strict=True)],
        "device": [
            t.get("device") if d else None for t, d in zip(attributes, on_device, strict=True)
        ],
        "stream": [t if d else None for t, d in zip(columns["thread"], on_device, strict=True)],
    }
    frame = pl.DataFrame({name: columns[name] for name in SPAN_SCHEMA}, schema=dict(SPAN_SCHEMA))
    absent = [
        pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name)
        for name in ("parent", "correlation")
    ]
    return frame.with_columns(*absent, attributes=pl.Series(texts, dtype=pl.String))
