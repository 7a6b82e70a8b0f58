"""What analyses read: an evaluation's rows as Polars frames, and one run's share of them.

Times are nanoseconds; those of one attempt count from its own origin and are never compared with
another's. Null is absent.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.level import Level
from schemas.manifest import Step
from services.analyzer.correlation import Correlated, correlated
from services.analyzer.devices import (
    counted_in,
    kernels_of,
    launches_of,
    no_natures,
    unattributed_share,
)
from services.analyzer.row_schemas import COUNTER_SCHEMA, FAILURE_SCHEMA, SERIES_SCHEMA

Ns = npt.NDArray[np.int64]

ANSWERED, LOST = 0, 2
ROOT_LEVEL = int(Level.APPLICATION)
OPERATOR_LEVEL = int(Level.MODEL)
LAYER_LEVEL = int(Level.FRAMEWORK)
PREDICT = "predict"


def _no_counters() -> pl.DataFrame:
    return pl.DataFrame(schema=dict(COUNTER_SCHEMA))


def _no_series() -> pl.DataFrame:
    return pl.DataFrame(schema=dict(SERIES_SCHEMA))


def _no_failures() -> pl.DataFrame:
    return pl.DataFrame(schema=dict(FAILURE_SCHEMA))


@dataclass(frozen=True, slots=True)
class RunRow:
    """One attempt of a run, as the collector recorded it; `end` is what the scheduler made of it.

    `conditions` is schemas.run.Conditions as a map.
    """

    run_key: int
    run: str
    attempt: int = 1
    end: str = "completed"
    agent: str = ""
    session: str = ""
    scenario: str = "online"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    pacing: str = "local"
    level: int = 0
    level_asked: int = 0
    level_note: str = ""
    batch_size: int = 1
    #: empty, serialised, counters or cold: never mixed
    variant: str = ""
    model: str = ""
    model_version: str = ""
    dataset: str = ""
    framework: str = ""
    framework_version: str = ""
    device: str = "cpu"
    outcome: str = "completed"
    state: str = "recorded"
    error: str = ""
    message: str = ""
    interrupted: str | None = None
    spans: int = 0
    queries: int = 0
    failed_queries: int = 0
    dropped_batches: int = 0
    #: records that collectors of traces lost
    dropped_records: int = 0
    #: what the worker found in each block: block, queries, median_ns
    blocks: Sequence[Mapping[str, int]] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)
    caveats: Sequence[str] = ()

    @property
    def level_name(self) -> str:
        """The deepest level traced, by name."""
        return Level(self.level).name.lower()


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of the dataset: what it is called and the labels that would be right."""

    name: str
    labels: tuple[str, ...] = ()
    #: as the manifest has it; of a sample with several files all of them
    path: str = ""


@dataclass(frozen=True, slots=True)
class Aim:
    """What the plan says of a model and its dataset, as far as answers are judged by it."""

    task: str = ""
    #: why no answer of this model can be judged, '' where it can
    hopeless: str = ""
    #: how many samples the dataset has; None is not known
    samples: int | None = None
    #: how steps resize, cut and pad a picture; None: the model's inputs show different parts of it
    framing: tuple[Step, ...] | None = ()
    #: whether inline code makes the input: nobody knows what of a picture it shows
    is_coded: bool = False


@dataclass(frozen=True)
class Run:
    """One run that counts, and its rows."""

    row: RunRow
    queries: pl.DataFrame
    spans: pl.DataFrame
    layers: pl.DataFrame
    outputs: pl.DataFrame
    failures: pl.DataFrame = field(default_factory=_no_failures)
    #: what sources say of single device spans (devices.NATURE_SCHEMA)
    natures: pl.DataFrame = field(default_factory=no_natures)
    #: layers that sources named for single device spans: span to the layer's name
    named_layers: Mapping[int, str] = field(default_factory=dict)
    #: name and layer of a query's kernels in a run of the same model without graphs
    eager: pl.DataFrame | None = None
    #: what was sampled beside it (SERIES_SCHEMA), in the order of time
    series: pl.DataFrame = field(default_factory=_no_series)
    #: what a profiler was asked to count of single kernels (COUNTER_SCHEMA)
    counters: pl.DataFrame = field(default_factory=_no_counters)

    @cached_property
    def answered(self) -> pl.DataFrame:
        """Queries that were answered, in order."""
        return self.queries.filter(pl.col("status") == ANSWERED).sort("query")

    @property
    def failed(self) -> int:
        """Queries that failed or were lost."""
        return self.queries.height - self.answered.height

    @property
    def answered_samples(self) -> Ns:
        """Of each answered query: how many of its samples have an answer."""
        frame = self.answered
        return (frame["size"] - frame["failed"].fill_null(0)).to_numpy()

    @property
    def failed_samples(self) -> int:
        """Samples without an answer in queries that were answered in part."""
        return int(self.answered["failed"].fill_null(0).sum())

    @property
    def is_open_loop(self) -> bool:
        """Whether queries had due times, whatever happened to those before them."""
        return self.queries["due_ns"].count() > 0

    @cached_property
    def latency_ns(self) -> Ns:
        """Of each answered query: from when it was due (closed loop: issued) to its answer."""
        frame = self.answered
        since = frame["due_ns"].fill_null(frame["issued_ns"])
        return (frame["ended_ns"] - since).to_numpy()

    @cached_property
    def service_ns(self) -> Ns:
        """Of each answered query that says it: the agent's own time."""
        return self.answered["service_ns"].drop_nulls().to_numpy()

    def operator_ns(self, name: str) -> Ns:
        """Time in one operator, a value a query."""
        return _per_query(self.spans_at(OPERATOR_LEVEL).filter(pl.col("name") == name))

    @cached_property
    def correlated(self) -> Correlated:
        """Every span's place among the others."""
        return correlated(self.spans)

    @property
    def tree(self) -> pl.DataFrame:
        """Parent, layer and method of every span (correlation.correlate)."""
        return self.correlated.frame

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """What ran on devices (devices.KERNEL_SCHEMA)."""
        by_name = {
            name: layer for layer, name in self.layers.select("layer", "name").iter_rows() if name
        }
        layers = {
            span: by_name[name] for span, name in self.named_layers.items() if name in by_name
        }
        found = kernels_of(self.correlated, self.natures, layers, self.eager)
        return counted_in(found, self.answered["query"].min())

    @cached_property
    def launches(self) -> pl.DataFrame:
        """The calls that may start device work (devices.LAUNCH_SCHEMA)."""
        return launches_of(self.correlated)

    @property
    def unattributed_share(self) -> float:
        """The share of kernels' time that lies in no known layer, failed queries' left out."""
        failed = self.queries.join(self.answered, on="query", how="anti").select("query")
        return unattributed_share(self.kernels.join(failed, on="query", how="anti"))

    def spans_at(self, level: int) -> pl.DataFrame:
        """Spans of one level, of queries that were answered.

        Layers of foreign traces that name no query belong to the one around them.
        """
        found = self.spans.filter(pl.col("level") == level)
        if level == LAYER_LEVEL and (found["query"] < 0).any():
            found = self._in_queries.filter(pl.col("level") == level)
        return found.join(self.answered.select("query"), on="query", how="semi")

    @cached_property
    def _in_queries(self) -> pl.DataFrame:
        """Spans with the query around them where they know none of their own."""
        kind = self.spans.schema["query"]
        return self.correlated.spans.with_columns(
            pl.Series("query", self.correlated.query).cast(kind)
        )


@dataclass(frozen=True, slots=True)
class Frames:
    """All that is known of an evaluation; `caveats` say what was not read."""

    evaluation: str
    #: the attempts that count, with their rows, in the plan's order
    measured: tuple[Run, ...]
    #: every attempt recorded, those measured among them
    attempts: tuple[RunRow, ...]
    samples: tuple[Sample, ...] = ()
    aim: Aim = Aim()
    caveats: tuple[str, ...] = ()

    @property
    def runs(self) -> tuple[RunRow, ...]:
        """The attempts that count."""
        return tuple(run.row for run in self.measured)


def _per_query(spans: pl.DataFrame) -> Ns:
    summed = spans.group_by("query").agg(pl.col("duration_ns").sum()).sort("query")
    return summed["duration_ns"].to_numpy()


def whole_queries(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the first spans of a run without those of queries that end after the last of them.

    `spans` are all that began before some time. Without roots all stay.
    """
    ends = pl.col("start_ns") + pl.col("duration_ns")
    roots = spans.filter((pl.col("level") <= ROOT_LEVEL) & (pl.col("query") >= 0))
    last_ns = pl.lit(spans["start_ns"].max(), pl.Int64)
    cut_ns = roots.filter(ends > last_ns)["start_ns"].min()
    return spans if cut_ns is None else spans.filter(pl.col("start_ns") < cut_ns)


def spaced_hz(queries: pl.DataFrame, column: str) -> float | None:
    """Return how often a second a time of `column` comes, from block to block anew.

    Distances over the time they span; None where no block spans any.
    """
    spans = (
        queries.drop_nulls(column)
        .group_by("block")
        .agg(
            (pl.len() - 1).alias("gaps"), (pl.col(column).max() - pl.col(column).min()).alias("ns")
        )
    )
    spent_ns = int(spans["ns"].sum())
    return int(spans["gaps"].sum()) / (spent_ns * 1e-9) if spent_ns > 0 else None


def contiguous_ends_ns(queries: pl.DataFrame) -> Ns:
    """Return when queries ended, with the time between a run's blocks taken out.

    Blocks of other runs lie between those of this one; each block here begins, with its first
    query issued, where the one before it ended. Starts at 0; in the order of `queries`.
    """
    began = pl.col("issued_ns").min().over("block")
    spent = queries.group_by("block").agg(
        (pl.col("ended_ns").max() - pl.col("issued_ns").min()).alias("spent_ns")
    )
    before = spent.sort("block").with_columns(
        (pl.col("spent_ns").cum_sum() - pl.col("spent_ns")).alias("before_ns")
    )
    placed = queries.with_columns((pl.col("ended_ns") - began).alias("within_ns")).join(
        before, on="block", how="left", maintain_order="left"
    )
    return (placed["within_ns"] + placed["before_ns"]).to_numpy()


def features_of(text: str) -> list[dict[str, Any]]:
    """Return a sample's features, best first; what is not a list of maps has none.

    They may lie beside what is true of the sample: `{"features": [...], "truth": {...}}`.
    """
    value = json.loads(text)
    if isinstance(value, dict):
        value = value.get("features", [value])
    if not isinstance(value, list):
        return []
    found = [each for each in value if isinstance(each, dict)]
    return sorted(found, key=lambda each: -(probability_of(each) or 0.0))


def probability_of(feature: Mapping[str, Any]) -> float | None:
    """Return a feature's probability; None where it is not a number."""
    value = feature.get("probability")
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
