"""Our side of the comparison with HTA answers what it should, beside a slow obvious reference."""

from pathlib import Path

import polars as pl
import pytest

from benchmarks.kineto_file import write
from benchmarks.mlscope_side import answered
from benchmarks.tracing import Shape, spans_of
from schemas.batch import SpanKind

SHAPE = Shape(queries=3, layers=4, launches=5)
ROUNDED_NS = SHAPE.all_launches
"""Chrome's stamps are microseconds as doubles: each may be off by a nanosecond."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    path: Path = tmp_path_factory.mktemp("trace") / "trace.json"
    write(path, spans_of(SHAPE))
    figures: dict[str, float] = answered(path, has_operators=True)["found"]
    return figures


@pytest.fixture(scope="module")
def spans() -> pl.DataFrame:
    return spans_of(SHAPE)


def _work(spans: pl.DataFrame) -> list[tuple[int, int, int]]:
    """Return stream, start and end of each kernel and copy, in the order of starts."""
    kinds = [int(SpanKind.KERNEL), int(SpanKind.COPY)]
    work = spans.filter(pl.col("kind").is_in(kinds)).sort("start_ns")
    rows = work.select("stream", "start_ns", "duration_ns").iter_rows()
    return [(stream, start, start + duration) for stream, start, duration in rows]


def test_device_time_is_the_sum_of_all_work(found: dict[str, float], spans: pl.DataFrame) -> None:
    work = _work(spans)
    assert found["device_ns"] == sum(end - start for _, start, end in work)
    assert found["slowest_ns"] == max(end - start for _, start, end in work)


def test_idle_time_is_what_no_work_covers(found: dict[str, float], spans: pl.DataFrame) -> None:
    work = _work(spans)
    reached, idle = work[0][1], 0
    for _, start, end in work:
        idle += max(start - reached, 0)
        reached = max(reached, end)
    assert idle > 1000 * ROUNDED_NS
    assert found["idle_ns"] == pytest.approx(idle, abs=ROUNDED_NS)


def _with_launches(spans: pl.DataFrame) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Return the rows of each launch and of the work that it launched, in the order of work."""
    links = spans.select("correlation", "kind", "start_ns", "duration_ns", "stream")
    rows = links.drop_nulls("correlation").sort("start_ns").to_dicts()
    launches = {row["correlation"]: row for row in rows if row["kind"] == int(SpanKind.LAUNCH)}
    work = [row for row in rows if row["kind"] != int(SpanKind.LAUNCH)]
    return [(launches[row["correlation"]], row) for row in work]


def test_a_stream_waits_for_the_host_where_it_launched_late(
    found: dict[str, float], spans: pl.DataFrame
) -> None:
    last: dict[int, int] = {}
    waited = delay = 0
    for launch, row in _with_launches(spans):
        before = last.get(row["stream"])
        delay += max(row["start_ns"] - launch["start_ns"] - launch["duration_ns"], 0)
        if before is not None and launch["start_ns"] > before:
            waited += row["start_ns"] - before
        last[row["stream"]] = row["start_ns"] + row["duration_ns"]
    assert found["host_wait_ns"] == pytest.approx(waited, abs=ROUNDED_NS)
    assert found["delay_ns"] == pytest.approx(delay, abs=ROUNDED_NS)


def test_every_launch_has_its_step_and_its_operator(found: dict[str, float]) -> None:
    assert (found["launches"], found["annotated"]) == (60, 60)
    assert found["operators"] == SHAPE.queries * SHAPE.layers
    assert 1 <= found["sequences"] <= found["operators"]
