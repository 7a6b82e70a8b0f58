"""What analyses read: an evaluation's rows as Polars frames, one set for each run.

Times are nanoseconds; those of one attempt count from its own origin and are not compared with
another's. Null is absent.
"""

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.counts import many
from schemas.level import Level
from schemas.manifest import Step
from services.analyzer.correlation import Correlated, correlated
from services.analyzer.frames.derived import DerivedCache
from services.analyzer.frames.devices import (
    counted_in,
    device_work_of,
    launches_of,
    no_device_attributes,
    unattributed_share,
)
from services.analyzer.frames.row_schemas import (
    COUNTER_SCHEMA,
    FAILURE_SCHEMA,
    SERIES_SCHEMA,
    empty_frame,
)

Ns = npt.NDArray[np.int64]

ANSWERED, LOST = 0, 2
CANCELLED = "cancelled"
"""The end of a run that its evaluation's cancellation cut off."""
ROOT_LEVEL = int(Level.APPLICATION)
OPERATOR_LEVEL = int(Level.MODEL)
LAYER_LEVEL = int(Level.FRAMEWORK)
PREDICT = "predict"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One attempt of a run, as the collector recorded it; `end` is the scheduler's outcome.

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
    #: empty, serialised, counters or cold
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
    #: the worker's statistics of each block: block, queries, median_ns
    blocks: Sequence[Mapping[str, int]] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)
    caveats: Sequence[str] = ()

    @property
    def level_name(self) -> str:
        """The deepest level traced, by name."""
        return Level(self.level).name.lower()

    @property
    def opened(self) -> str:
        """The id of its opened model; '' where unknown."""
        return str(self.conditions.get("opened") or "")

    @property
    def prepared(self) -> str:
        """When its samples were prepared, ahead of the clock or streamed; '' where unknown."""
        return str(self.conditions.get("samples") or "")

    @property
    def prepared_text(self) -> str:
        """When its samples were prepared, and whether they lay on the device, for a table."""
        is_on_device = self.conditions.get("inputs") == "device"
        return f"{self.prepared}, inputs on the device" if is_on_device else self.prepared

    @property
    def calls_in_flight(self) -> int:
        """Predict calls under way at a time; one before release 0.2."""
        return int(self.conditions.get("calls_in_flight") or 1)

    @property
    def parameters_text(self) -> str:
        """The scenario's parameters as JSON: equal for equal parameters."""
        return json.dumps(dict(self.parameters), sort_keys=True, default=str)


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of the dataset: its name and its right labels."""

    name: str
    labels: tuple[str, ...] = ()
    #: as in the manifest; all paths of a sample with several files
    path: str = ""


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """What the plan says of a model and its dataset for scoring the answers."""

    task: str = ""
    #: why no answer of this model can be scored, '' where answers can
    unscorable_reason: str = ""
    #: number of samples in the dataset; None where unknown
    samples: int | None = None
    #: how steps resize, crop and pad an image; None where the inputs show different parts of it
    geometry_steps: tuple[Step, ...] | None = ()
    #: whether inline code makes the input, so that the part of the image it shows is unknown
    is_coded: bool = False


@dataclass(frozen=True)
class Run:
    """One run that counts, with its rows."""

    row: RunRow
    queries: pl.DataFrame
    spans: pl.DataFrame
    layers: pl.DataFrame
    outputs: pl.DataFrame
    failures: pl.DataFrame = field(default_factory=partial(empty_frame, FAILURE_SCHEMA))
    #: what sources report of single device spans (devices.DEVICE_ATTRIBUTE_SCHEMA)
    device_attributes: pl.DataFrame = field(default_factory=no_device_attributes)
    #: layers that sources named for single device spans: span to the layer's name
    named_layers: Mapping[int, str] = field(default_factory=dict)
    #: name and layer of a query's kernels in a run of the same model without graphs
    eager: pl.DataFrame | None = None
    #: series sampled during the run (SERIES_SCHEMA), in the order of time
    series: pl.DataFrame = field(default_factory=partial(empty_frame, SERIES_SCHEMA))
    #: counters of single kernels that were requested from a profiler (COUNTER_SCHEMA)
    counters: pl.DataFrame = field(default_factory=partial(empty_frame, COUNTER_SCHEMA))
    #: values that analyses compute from these frames, once each
    cache: DerivedCache = field(default_factory=DerivedCache, init=False, repr=False, compare=False)

    @cached_property
    def answered(self) -> pl.DataFrame:
        """The answered queries, in order."""
        return self.queries.filter(pl.col("status") == ANSWERED).sort("query")

    @property
    def failed(self) -> int:
        """The number of queries that failed or were lost."""
        return self.queries.height - self.answered.height

    @property
    def answered_samples(self) -> Ns:
        """The number of answered samples in each answered query."""
        frame = self.answered
        return (frame["size"] - frame["failed"].fill_null(0)).to_numpy()

    @property
    def failed_samples(self) -> int:
        """The number of samples without an answer in partly answered queries."""
        return int(self.answered["failed"].fill_null(0).sum())

    @property
    def cut_off_text(self) -> str:
        """After how many queries a cancellation cut it off; '' where none did."""
        if self.row.end != CANCELLED:
            return ""
        return f"cancelled after {many(self.queries.height, 'query')}"

    @property
    def is_open_loop(self) -> bool:
        """Whether queries had due times, independent of the queries before them."""
        return self.queries["due_ns"].count() > 0

    @cached_property
    def latency_ns(self) -> Ns:
        """Time of each answered query from when it was due (closed loop: issued) to its answer."""
        frame = self.answered
        since = frame["due_ns"].fill_null(frame["issued_ns"])
        return (frame["ended_ns"] - since).to_numpy()

    @cached_property
    def answered_blocks(self) -> Ns:
        """The block of each answered query.

        A load that the scheduler issues goes on without a pause: as its rows have one block, each
        `queries` of it count as a block.
        """
        queries = self.row.parameters.get("queries")
        if self.row.pacing == "remote" and isinstance(queries, int) and queries > 0:
            return self.answered["query"].to_numpy().astype(np.int64) // queries
        return self.answered["block"].fill_null(0).to_numpy()

    @cached_property
    def service_ns(self) -> Ns:
        """The agent's own time of each answered query that reports it."""
        return self.answered["service_ns"].drop_nulls().to_numpy()

    def operator_ns(self, name: str) -> Ns:
        """Return the time (ns) in the operator `name`, one value for each query."""
        spans = self.spans_at(OPERATOR_LEVEL).filter(pl.col("name") == name)
        by_query = (
            spans.group_by("query", maintain_order=True)
            .agg(pl.col("duration_ns").sum())
            .sort("query")
        )
        return by_query["duration_ns"].to_numpy()

    @cached_property
    def correlated(self) -> Correlated:
        """The tree of the run's spans."""
        return correlated(self.spans)

    @property
    def tree(self) -> pl.DataFrame:
        """Parent, layer and method of every span (correlation.correlate)."""
        return self.correlated.frame

    @cached_property
    def device_work(self) -> pl.DataFrame:
        """The work on devices: kernels, copies and sets (devices.DEVICE_WORK_SCHEMA)."""
        by_name = {
            name: layer for layer, name in self.layers.select("layer", "name").iter_rows() if name
        }
        layers = {
            span: by_name[name] for span, name in self.named_layers.items() if name in by_name
        }
        work = device_work_of(self.correlated, self.device_attributes, layers, self.eager)
        return counted_in(work, self.answered["query"].min())

    @cached_property
    def launches(self) -> pl.DataFrame:
        """The calls that may start device work (devices.LAUNCH_SCHEMA)."""
        return launches_of(self.correlated)

    @property
    def unattributed_share(self) -> float:
        """The share (0 to 1) of kernel time in no known layer, without failed queries."""
        failed = self.queries.join(self.answered, on="query", how="anti").select("query")
        return unattributed_share(self.device_work.join(failed, on="query", how="anti"))

    def spans_at(self, level: int) -> pl.DataFrame:
        """Return the spans of one level in answered queries.

        Layers of imported traces that name no query belong to the query around them.
        """
        spans = self.spans.filter(pl.col("level") == level)
        if level == LAYER_LEVEL and (spans["query"] < 0).any():
            spans = self.spans_in_queries.filter(pl.col("level") == level)
        return spans.join(self.answered.select("query"), on="query", how="semi")

    @cached_property
    def spans_in_queries(self) -> pl.DataFrame:
        """The spans; those without a query of their own get that of the span around them."""
        kind = self.spans.schema["query"]
        return self.correlated.spans.with_columns(
            pl.Series("query", self.correlated.query).cast(kind)
        )


@dataclass(frozen=True, slots=True)
class Frames:
    """The rows of an evaluation; `caveats` say what was not read."""

    evaluation: str
    #: the attempts that count, with their rows, in the plan's order
    measured: tuple[Run, ...]
    #: every recorded attempt, including those measured
    attempts: tuple[RunRow, ...]
    samples: tuple[Sample, ...] = ()
    scoring_context: ScoringContext = ScoringContext()
    caveats: tuple[str, ...] = ()

    @property
    def runs(self) -> tuple[RunRow, ...]:
        """The attempts that count."""
        return tuple(run.row for run in self.measured)


def complete_queries(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the first spans of a run without those of queries that were cut.

    `spans` are those that began before some time. A query is cut when it ends after the last of
    them began. Without roots all spans stay.
    """
    ends = pl.col("start_ns") + pl.col("duration_ns")
    roots = spans.filter((pl.col("level") <= ROOT_LEVEL) & (pl.col("query") >= 0))
    last_ns = pl.lit(spans["start_ns"].max(), pl.Int64)
    cut_ns = roots.filter(ends > last_ns)["start_ns"].min()
    return spans if cut_ns is None else spans.filter(pl.col("start_ns") < cut_ns)


def spaced_hz(queries: pl.DataFrame, column: str) -> float | None:
    """Return the rate (1/s) of the times in `column`: gaps within blocks over their summed time.

    The gaps between blocks do not count; None where no block spans any time.
    """
    spans = (
        queries.drop_nulls(column)
        .group_by("block", maintain_order=True)
        .agg(
            (pl.len() - 1).alias("gaps"), (pl.col(column).max() - pl.col(column).min()).alias("ns")
        )
    )
    spent_ns = int(spans["ns"].sum())
    return int(spans["gaps"].sum()) / (spent_ns * 1e-9) if spent_ns > 0 else None


def contiguous_ends_ns(queries: pl.DataFrame) -> Ns:
    """Return when queries ended (ns), without the time between a run's blocks.

    Blocks of other runs lie between those of this run. Here each block, from its first issued
    query, begins where the block before it ended. Times start at 0; in the order of `queries`.
    """
    began = pl.col("issued_ns").min().over("block")
    spent = queries.group_by("block", maintain_order=True).agg(
        (pl.col("ended_ns").max() - pl.col("issued_ns").min()).alias("spent_ns")
    )
    before = spent.sort("block").with_columns(
        (pl.col("spent_ns").cum_sum() - pl.col("spent_ns")).alias("before_ns")
    )
    placed = queries.with_columns((pl.col("ended_ns") - began).alias("within_ns")).join(
        before, on="block", how="left", maintain_order="left"
    )
    return (placed["within_ns"] + placed["before_ns"]).to_numpy()


def read_features(text: str) -> Any:
    """Return the value of the JSON `text` of a sample's output.

    It is None where lists are nested too deep, or a number has too many digits for Python.
    """
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return None


def features_of(text: str) -> list[dict[str, Any]]:
    """Return the features in the JSON `text` of a sample's output, most probable first.

    The text is a list of maps, or a map with such a list: `{"features": [...], "truth": {...}}`.
    Any other text has no features.
    """
    value = read_features(text)
    if isinstance(value, dict):
        value = value.get("features", [value])
    if not isinstance(value, list):
        return []
    features = [feature for feature in value if isinstance(feature, dict)]
    return sorted(features, key=lambda feature: -(probability_of(feature) or 0.0))


def probability_of(feature: Mapping[str, Any]) -> float | None:
    """Return a feature's probability; None where it is not a number."""
    value = feature.get("probability")
    with contextlib.suppress(OverflowError):
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
    return None
