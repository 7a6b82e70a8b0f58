"""A run's spans made ready for drawing: sorted by lane, depth and start, with parents. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.tracing.depths import depths_of
from mlscope.tracing.lanes import COUNTER, MOST_LANES, key_of, lane_codes, lane_of
from mlscope.tracing.load_spans import LOAD_NAMES, load_of
from schemas.trace import TraceLane
from services.analyzer.correlation import correlate
from services.analyzer.traces.columns import Columns, Ns
from services.analyzer.traces.resolutions import SPAN_FIELDS, Prepared, resolutions_of

MOST_CORRELATED = 4_000_000
"""Above, spans have the parents that were captured: finding the others takes 150 bytes a span."""
_UNSIGNED_16 = 1 << 16


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of a run's spans: columns, texts of names, values and units of samples."""

    spans: Columns
    names: Mapping[int, str]
    queries: Columns
    samples: Columns
    units: Mapping[int, str] = field(default_factory=dict)


def prepared(stored: Stored) -> Prepared:
    """Return a run's spans and load, each in its lane and depth."""
    spans, load = stored.spans, load_of(stored.queries)
    named = (spans[name] for name in ("level", "kind", "thread", "device", "name"))
    codes = np.concatenate([lane_codes(*named), load.code])
    start = np.concatenate([spans["start_ns"], load.start])
    # A span without a recorded end has no length to draw.
    lengths = np.maximum(spans["duration_ns"], 0)
    duration = np.concatenate([lengths, load.end - load.start])
    distinct = np.unique(codes)
    lane = np.minimum(np.searchsorted(distinct, codes), MOST_LANES - 1).astype(np.uint16)
    order, depth, lane_ends = _laid_out(lane, start, start + duration)
    texts, name = _names(stored, load.name)
    columns: dict[str, npt.NDArray[np.generic]] = {
        "lane": lane,
        "start": start.astype(np.float64),
        "duration": duration.astype(np.float64),
        "id": np.concatenate([spans["span"], load.id]),
        "parent": np.concatenate([_parents(spans), np.full(len(load.id), -1)]),
        "query": np.concatenate([spans["query"], load.query]).astype(np.int32),
        "kind": np.concatenate([spans["kind"], load.kind]).astype(np.uint8),
        "correlation": np.concatenate([spans["correlation"], np.full(len(load.id), -1)]),
        "value": _values(spans["span"], stored.samples, len(load.id)),
    }
    sorted_columns = {column: values[order] for column, values in columns.items()}
    names = pl.Series(texts, dtype=pl.Enum(texts)).gather(name[order]).alias("name")
    frame = pl.DataFrame(sorted_columns | {"depth": depth}).insert_column(3, names)
    frame = frame.select(SPAN_FIELDS)
    lanes = _lanes(distinct[:MOST_LANES].tolist(), stored, depth, lane_ends)
    return resolutions_of(frame, lanes)


def _laid_out(
    lane: npt.NDArray[np.uint16], start: Ns, end: Ns
) -> tuple[Ns, npt.NDArray[np.uint8], list[int]]:
    """Return the order by lane, depth and start, the depths in it, and where each lane ends."""
    order = np.argsort(start, kind="stable")
    order = order[np.argsort(lane[order], kind="stable")]
    # Of equal starts, the longest span is first.
    is_tied = np.zeros(len(order) + 1, bool)
    is_tied[1:-1] = (np.diff(start[order]) == 0) & (np.diff(lane[order].astype(np.int32)) == 0)
    places = np.flatnonzero(is_tied[1:] | is_tied[:-1])
    tied = order[places]
    order[places] = tied[np.lexsort((tied, -end[tied], start[tied], lane[tied]))]
    lane_ends = np.cumsum(np.bincount(lane, minlength=1)).tolist()
    depths = np.empty(len(lane), np.uint8)
    first = 0
    for last in lane_ends:
        rows = order[first:last]
        depth = depths_of(start[rows], end[rows])
        by_depth = np.argsort(depth, kind="stable")
        order[first:last], depths[first:last] = rows[by_depth], depth[by_depth]
        first = last
    return order, depths, lane_ends


def _names(stored: Stored, load_name: Ns) -> tuple[list[str], Ns]:
    """Return the distinct texts of names, and each span's place among them."""
    numbers = np.unique(stored.spans["name"])
    texts = [stored.names.get(number, f"#{number}") for number in numbers.tolist()]
    distinct = list(dict.fromkeys([*texts, *LOAD_NAMES]))
    places = {text: place for place, text in enumerate(distinct)}
    kind = np.uint16 if len(distinct) < _UNSIGNED_16 else np.uint32
    of_number = np.array([places[text] for text in texts], kind)
    of_load = np.array([places[text] for text in LOAD_NAMES], kind)
    name = of_number[np.searchsorted(numbers, stored.spans["name"])] if len(numbers) else of_number
    return distinct, np.concatenate([name, of_load[load_name]])


def _parents(spans: Columns) -> Ns:
    """Return each span's parent by its id, -1 without one: as captured, else as found."""
    if len(spans["span"]) > MOST_CORRELATED:
        return spans["parent"]
    correlated = correlate(
        pl.DataFrame({name: values for name, values in spans.items() if name != "name"})
    )
    parents = spans["parent"].copy()
    order = np.argsort(spans["span"], kind="stable")
    place = np.searchsorted(spans["span"][order], correlated["span"].to_numpy())
    parents[order[place]] = correlated["parent"].fill_null(-1).to_numpy()
    return parents


def _values(ids: Ns, samples: Columns, without_value: int) -> npt.NDArray[np.float32]:
    """Return the value of each sample, NaN for other spans."""
    values = np.full(len(ids) + without_value, np.nan, np.float32)
    if len(samples["span"]):
        order = np.argsort(samples["span"])
        sought = samples["span"][order]
        place = np.minimum(np.searchsorted(sought, ids), len(sought) - 1)
        is_sample = sought[place] == ids
        values[: len(ids)][is_sample] = samples["value"][order][place][is_sample]
    return values


def _lanes(
    codes: Sequence[int], stored: Stored, depth: npt.NDArray[np.uint8], ends: Sequence[int]
) -> list[TraceLane]:
    lanes, first = [], 0
    for number, (code, last) in enumerate(zip(codes, ends, strict=False)):
        key = key_of(code)
        series, unit = "", ""
        if key.group == COUNTER:
            series = stored.names.get(key.track, f"#{key.track}")
            unit = stored.units.get(key.track, "")
        counts = {"depth_max": int(depth[last - 1]), "spans": last - first}
        lanes.append(lane_of(number, key, series, unit).model_copy(update=counts))
        first = last
    return lanes
