"""The rows of one attempt as frames: bounded, with caveats for what was not read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import polars as pl

from mlscope.counts import many
from mlscope.tracing.copy_kinds import COPY_KINDS
from schemas.level import Level
from services.analyzer.frames.bounds import Bounds
from services.analyzer.frames.columns import device_attributes_of, frame_of, with_names
from services.analyzer.frames.evaluation import (
    LAYER_LEVEL,
    ROOT_LEVEL,
    Run,
    RunRow,
    complete_queries,
)
from services.analyzer.frames.row_schemas import (
    COUNTER_SCHEMA,
    FAILURE_SCHEMA,
    LAYER_SCHEMA,
    MOST_COUNTERS,
    OUTPUT_SCHEMA,
    QUERY_SCHEMA,
    SERIES_SCHEMA,
    SPAN_SCHEMA,
    Schema,
)
from services.analyzer.storage.session import Session

_HARDWARE_LEVEL = int(Level.HARDWARE)
_SERIES_CHUNK = 50_000
"""Rows of sampled series that are Python objects at a time."""

_KINDS = {
    "spans": "spans",
    "queries": "queries",
    "outputs": "outputs",
    "samples": "sampled values",
    "named_layers": "spans that name their layer",
}
"""The bounded kinds of rows, with their names in caveats."""

_LAYER_ATTRIBUTES = {"span": pl.Int64} | {
    name: kind for name, kind in LAYER_SCHEMA.items() if name not in ("run_key", "layer", "name")
}


@dataclass(frozen=True, slots=True)
class RunReader:
    """Reads the rows of one attempt in a session; `ts` is its partition in the database."""

    session: Session
    row: RunRow
    ts: datetime | None

    @property
    def _key(self) -> dict[str, Any]:
        return {"run_key": self.row.run_key, "ts": self.ts}

    def stored(self) -> dict[str, int]:
        """Return how many rows of each kind of `Bounds` are stored and can be read."""
        if self.ts is None:
            return dict.fromkeys(_KINDS, 0)
        rows = self.session.maps("stored_rows", self._key)[0]
        return {**rows, **self.session.maps("stored_device_rows", self._key)[0]}

    def read(self, stored: Mapping[str, int], bounds: Bounds) -> tuple[Run, list[str]]:
        """Return the run with at most `bounds` of its `stored` rows, and caveats for the rest.

        A query of which only some spans were read is left out of the spans.
        """
        run = self._run(bounds)
        name = self.row.run
        caveats = [
            f"{name}: the first {limit} of {stored[kind]} {kind_name} were read"
            for kind, kind_name in _KINDS.items()
            if stored[kind] > (limit := getattr(bounds, kind))
        ]
        if stored["spans"] <= bounds.spans:
            return run, caveats
        spans = complete_queries(run.spans)
        if spans.height < run.spans.height:
            queries = many(spans.filter(pl.col("level") <= ROOT_LEVEL).height, "query")
            caveats.append(
                f"{name}: of those, the {spans.height} of complete queries count ({queries})"
            )
        return replace(run, spans=spans), caveats

    def _run(self, bounds: Bounds) -> Run:
        session, key, run_key = self.session, self._key, self.row.run_key
        queries = session.maps("query_columns", key | {"most": bounds.queries})[0]
        span_columns = session.maps("span_columns", key | {"most": bounds.spans})[0]
        names = {row["name"]: row["text"] for row in session.maps("span_names", key)}
        spans = with_names(frame_of(span_columns, SPAN_SCHEMA, run_key), names)
        first = spans.filter(pl.col("level") == LAYER_LEVEL).unique(
            ["layer", "name"], keep="first", maintain_order=True
        )
        of_first = session.maps("layer_attributes", key | {"spans": first["span"].to_list()})
        layer_attributes = pl.DataFrame(of_first, schema=_LAYER_ATTRIBUTES, orient="row")
        layers = first.join(layer_attributes, on="span", how="left").select(*LAYER_SCHEMA)
        outputs = session.maps("outputs", key | {"most": bounds.outputs})
        values = key | {"most": bounds.spans, "copy_kinds": list(COPY_KINDS)}
        attributes = session.maps("device_attribute_columns", values)[0]
        named_layers = session.rows("named_layers", key | {"most": bounds.named_layers})
        counters = []
        if (spans["level"] == _HARDWARE_LEVEL).any():  # only a replay has counters of kernels
            at_most = {"most": MOST_COUNTERS}
            counters = session.rows("kernel_counters", key | at_most).fetchall()
        # One string for each layer, not one for each span.
        layer_names: dict[str, str] = {}
        return Run(
            self.row,
            queries=frame_of(queries, QUERY_SCHEMA, run_key),
            spans=spans,
            layers=layers.with_columns(self._run_key_column),
            outputs=self._frame(outputs, OUTPUT_SCHEMA),
            failures=self._frame(session.maps("failures", key), FAILURE_SCHEMA),
            device_attributes=device_attributes_of(attributes),
            named_layers={
                span: layer_names.setdefault(layer, layer) for span, layer in named_layers
            },
            series=self._series(bounds),
            counters=pl.DataFrame(counters, schema=dict(COUNTER_SCHEMA), orient="row"),
        )

    @property
    def _run_key_column(self) -> pl.Expr:
        return pl.lit(self.row.run_key, pl.Int64).alias("run_key")

    def _frame(self, rows: list[dict[str, Any]], schema: Schema) -> pl.DataFrame:
        without_key = {name: kind for name, kind in schema.items() if name != "run_key"}
        frame = pl.DataFrame(rows, schema=without_key, orient="row")
        return frame.with_columns(self._run_key_column)

    def _series(self, bounds: Bounds) -> pl.DataFrame:
        """Return the sampled series, read in chunks since they may be long."""
        cursor = self.session.rows("series", self._key | {"most": bounds.samples})
        schema = dict(SERIES_SCHEMA)
        chunks = [pl.DataFrame(schema=schema)]
        while rows := cursor.fetchmany(_SERIES_CHUNK):
            chunks.append(pl.DataFrame(rows, schema=schema, orient="row"))
        return pl.concat(chunks)
