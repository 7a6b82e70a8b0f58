"""Where rows lie against their device's roof: below, at it, beyond main memory's, or above it.

No work exceeds its device. A row above the roof by more than the uncertainties of the roof and of
its own time has FLOP, bytes or a time that are wrong, or its device had another roof then.
Where one of these uncertainties is unknown, that is left open.

The bandwidth is that of main memory, and the bytes of shapes are those of a layer whose caches are
cold. Caches serve what the layer before has just written, so by shapes a row may exceed the
bandwidth, which is no error: for it only the peak is a limit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mlscope.counts import be, many, verb
from mlscope.quantities import number
from services.analyzer.building.roofs.ceilings import Ceilings
from services.analyzer.building.table import (
    Row,
    bool_column,
    distinct_name,
    float_column,
    format_share,
    share,
    text_column,
)

BELOW, AT, CACHED, ABOVE = "below", "at", "cached", "above"
ROOF_COLUMNS = (
    float_column("of_roof", "Throughput over the roof.", "1"),
    float_column(
        "roof_uncertainty",
        "Share of the roof by which it may be higher; null where unknown, 0 for a datasheet's.",
        "1",
    ),
    text_column(
        "roof_position",
        "Against the roof: below, at it (by its interval or the roof's uncertainty), cached: above "
        "that of main memory, as caches served bytes of its shapes, or above it, which is an error "
        "in mlscope; '' where unknown.",
    ),
)
"""A row's share of its roof, and what that says; `of_roof` is redefined where it is of times."""
MEMORY_BOUND_COLUMN = bool_column(
    "memory_bound",
    "Whether the intensity is below the ideal one; null where unknown, or within its uncertainty.",
)
_MOST_NAMED = 3
_SLOWER_PRODUCT = "the matrix product that measured it may be slower than the work's code"
STATIC = "static"
"""The source of FLOP and bytes that are those of the layers' shapes."""


def roof_cells(row: Row, ceilings: Ceilings, source: str) -> dict[str, Any]:
    """Return the cells of `ROOF_COLUMNS` of a row with a roofline point, under `ceilings`.

    The row has throughput, roof and intensity, and its time (ns) with an interval; `source` says
    where its FLOP and bytes are from: counters or static.
    """
    of_roof = share(row["throughput"], row["roof"])
    uncertainty = None if of_roof is None else ceilings.uncertainty(row["intensity"])
    of_peak = share(row["throughput"], ceilings.peak) if source == STATIC else None
    return position_cells(row, of_roof, uncertainty, ceilings.disturbance, of_peak)


def position_cells(
    times: Row,
    of_roof: float | None,
    uncertainty: float | None,
    disturbance: str = "",
    of_peak: float | None = None,
) -> dict[str, Any]:
    """Return the cells of `ROOF_COLUMNS` of a row whose share of its roof is `of_roof`.

    `times` has its time (ns) with an interval. The roof has an `uncertainty`, None where unknown;
    a `disturbance` of its measurement makes it too low by an unknown amount. `of_peak` is the share
    of the peak of a row with the bytes of its shapes, None for one whose bytes were counted.
    """
    position = _position(times, of_roof, uncertainty, disturbance)
    # The peak is the higher of both roofs: a row that is not above it exceeds the bandwidth alone.
    if position == ABOVE and of_peak is not None:
        position = ABOVE if _position(times, of_peak, uncertainty, "") == ABOVE else CACHED
    return {"of_roof": of_roof, "roof_uncertainty": uncertainty, "roof_position": position}


def _position(
    times: Row, of_roof: float | None, uncertainty: float | None, disturbance: str
) -> str:
    if of_roof is None:
        return ""
    # The true roof is not below the measured one, so only the row's interval may reach it.
    fastest = times["time_low"] or times["time"]
    if of_roof * times["time"] / fastest < 1.0:
        return BELOW
    if disturbance:
        return ""
    slowest = times["time_high"] or times["time"]
    if of_roof * times["time"] / slowest <= 1.0 + (uncertainty or 0.0):
        return AT
    return "" if uncertainty is None or times["time_high"] is None else ABOVE


Label = Callable[[Row, Sequence[Row]], str]
"""Returns the name of a row among others."""


def above_roof_notes(rows: Iterable[Row], label: Label = distinct_name) -> Iterator[str]:
    """Yield for each run which of its rows are above the roof, by how much, and what is in doubt.

    `label` names one of the `rows` among those of its run.
    """
    by_run: dict[str, list[Row]] = {}
    for row in rows:
        if row["of_roof"] is not None:
            by_run.setdefault(row["run"], []).append(row)
    for run, of_run in by_run.items():
        if above := [row for row in of_run if row["roof_position"] == ABOVE]:
            yield f"{run}: {_error_text(above, of_run, label)}"
        if cached := [row for row in of_run if row["roof_position"] == CACHED]:
            yield f"{run}: {_cached_text(cached, of_run, label)}"
        yield from (f"{run}: {note}" for note in _undecided_notes(of_run))


def _undecided_notes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield how many rows of a run are above a roof that may be higher, and why it may be."""
    undecided = [row for row in rows if row["roof_position"] == "" and row["of_roof"] > 1.0]
    unknown = [row for row in undecided if None in (row["roof_uncertainty"], row["time_high"])]
    disturbed = [row for row in undecided if row not in unknown]
    for part, reason in (
        (disturbed, ": the true roof may be higher"),
        (unknown, "; its uncertainty or that of their times is unknown"),
    ):
        if part:
            highest = number(max(row["of_roof"] for row in part))
            yield f"{_count_text(part, rows)} above the roof, by up to {highest} times{reason}"


def _error_text(above: Sequence[Row], rows: Sequence[Row], label: Label) -> str:
    doubt_texts = dict.fromkeys(map(_doubt, sorted(above, key=lambda row: -row["of_roof"])))
    return (
        f"an error in mlscope: {_count_text(above, rows)} above the roof by more than its "
        f"uncertainty ({_names_text(above, rows, label)}). Distrust {'; '.join(doubt_texts)}"
    )


def _cached_text(cached: Sequence[Row], rows: Sequence[Row], label: Label) -> str:
    return (
        f"{_count_text(cached, rows)} above the roof of main memory "
        f"({_names_text(cached, rows, label)}): caches served bytes that the shapes count as moved"
    )


def _names_text(some: Sequence[Row], rows: Sequence[Row], label: Label) -> str:
    """Return the names of the highest of `some` of the `rows`, and how high they are."""
    named = []
    for row in sorted(some, key=lambda row: -row["of_roof"])[:_MOST_NAMED]:
        uncertainty = row["roof_uncertainty"]
        spread = f", which may be {uncertainty:.1%} higher" if uncertainty else ""
        named.append(f"{label(row, rows)} is {number(row['of_roof'])} times the roof{spread}")
    unnamed = [f"{len(some) - _MOST_NAMED} more"] if len(some) > _MOST_NAMED else []
    return ", ".join([*named, *unnamed])


def _count_text(some: Sequence[Row], rows: Sequence[Row]) -> str:
    return f"{len(some)} of {many(len(rows), 'row')} {be(len(some))}"


def _doubt(row: Row) -> str:
    """Return what of a row to distrust, by what bounds it and where its work comes from."""
    is_memory_bound = _is_memory_bound(row)
    if is_memory_bound is None:
        return "their FLOP and bytes, as counted, and the roof"
    # By shapes a row exceeds the peak, whatever its bytes.
    if not is_memory_bound or row["source"] == STATIC:
        text = "their FLOP: the work may have used a faster algorithm or arithmetic than counted"
        is_measured = row["roof_uncertainty"] != 0.0
        return f"{text}; the roof: {_SLOWER_PRODUCT}" if is_measured else text
    return "their bytes and times: the replay that counted bytes was another run"


def _is_memory_bound(row: Row) -> bool | None:
    """Return what bounds a row; None where that is unknown, or differs among its parts."""
    if "least_time" not in row:
        bound: bool | None = row["memory_bound"]
        return bound
    if row["layer"] is None or not row["peak"]:
        return None
    return bool(1e9 * row["flops"] / row["peak"] < 0.999 * row["least_time"])


def error_text(rows: Sequence[Row]) -> str:
    """Return the end of a verdict about rows of which some are above a roof, else ''."""
    ends = (
        (CACHED, "above the roof of main memory, thanks to caches"),
        (ABOVE, "above the roof, an error in mlscope"),
    )
    counts = ((sum(row["roof_position"] == place for row in rows), text) for place, text in ends)
    return "".join(f" {many(count, 'row')} {be(count)} {text}." for count, text in counts if count)


def bound_text(rows: Sequence[Mapping[str, Any]], noun: str, source: str) -> str:
    """Return how many rows of a run memory bounds, as a verdict; a row is one `noun`.

    `source` tells where FLOP and bytes come from, as ` (by shapes)`.
    """
    undecided = sum(row["memory_bound"] is None and row["ridge"] is not None for row in rows)
    near_ridge = f"{many(undecided, noun)} may be on either side of the ridge"
    judged = [row for row in rows if row["memory_bound"] is not None]
    if not judged and not undecided:
        have = verb(len(rows), "has", "have")
        unknown = "but the roof of their device is unknown."
        return f"{many(len(rows), noun)} {have} an intensity{source}, {unknown}"
    if not judged:
        run = f"{rows[0]['run']}{source}"
        return f"The roof's uncertainty leaves open what bounds {run}: {near_ridge}."
    bound = [row for row in judged if row["memory_bound"]]
    part = share(sum(row["time"] for row in bound), sum(row["time"] for row in judged))
    return (
        f"{len(bound)} of {many(len(judged), noun)} {be(len(bound))} memory-bound{source} in "
        f"{rows[0]['run']}, {format_share(part)} of their time"
        f"{f'; {near_ridge}' if undecided else ''}.{error_text(rows)}"
    )
