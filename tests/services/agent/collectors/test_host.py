"""Collectors of the host: they count real work of this process."""

import mmap
import os
import threading
from pathlib import Path

import pytest

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    Collector,
    CollectorRequest,
    availability_of,
    collector_names,
    perf,
    perf_events,
    resource,
)
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.predictors import Opened

OPENED = Opened("onnxruntime", "1", (), (), "cpu", "", "float32", 1, {})


def asked(level: Level = Level.SYSTEM, **options: object) -> CollectorRequest:
    return CollectorRequest(OPENED, level, options)


def touch_pages(pages: int) -> None:
    """Write to so many pages that nobody wrote to: a fault each, no huge page among them."""
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as held:
        held.madvise(mmap.MADV_NOHUGEPAGE)
        for start in range(0, len(held), mmap.PAGESIZE):
            held[start] = 1


def around(collector: Collector, pages: int) -> Collected:
    """Collect while as many pages are touched, by a thread of its own too."""
    collector.begin()
    worker = threading.Thread(target=touch_pages, args=(pages,))
    worker.start()
    touch_pages(pages)
    worker.join()
    collected = collector.end()
    collector.close()
    return collected


def totals(collected: Collected) -> dict[str, float]:
    """Return the totals of a block by series."""
    told = [(span.name, span.attributes or {}) for span in collected.spans]
    return {name: attributes["value"] for name, attributes in told if attributes.get("total")}


def test_resources_are_sampled_and_totalled() -> None:
    collected = around(resource.open_collector(asked(rate_hz=1000)), pages=2000)
    found = totals(collected)
    assert found["resource.minor_faults"] >= 2000
    # Of so short a block the kernel may count all as the system's.
    assert found["resource.cpu_user"] + found["resource.cpu_system"] > 0
    series = [span for span in collected.spans if span.name == "resource.rss"]
    assert series
    assert {span.kind for span in collected.spans} == {SpanKind.SAMPLE}
    assert all((span.attributes or {})["value"] > 1 << 20 for span in series)


def test_totals_are_of_one_block() -> None:
    collector = resource.open_collector(asked())
    around(collector, pages=4000)
    collector.begin()
    assert totals(collector.end())["resource.minor_faults"] < 4000


@pytest.mark.parametrize("rate_hz", [0, 5000])
def test_a_rate_that_makes_no_sense_is_refused(rate_hz: float) -> None:
    with pytest.raises(CollectorUnavailable, match="rate_hz"):
        resource.open_collector(asked(rate_hz=rate_hz))


def test_io_is_left_out_where_the_system_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resource, "_IO", tmp_path / "io")
    assert "io_read" not in resource.totals()
    assert "tells nothing" in resource.availability().reason


needs_perf = pytest.mark.skipif(
    Level.SYSTEM not in perf.availability().levels, reason="this machine allows no perf events"
)


@needs_perf
def test_software_events_count_every_thread() -> None:
    found = totals(around(perf.open_collector(asked()), pages=3000))
    assert found["perf.page-faults"] >= 6000 * 0.9
    assert found["perf.task-clock"] > 0
    assert {name.partition(".")[2] for name in found} == {
        "task-clock", "page-faults", "context-switches", "cpu-migrations"
    }  # fmt: skip


@needs_perf
def test_a_thread_of_before_the_block_is_counted() -> None:
    go, done = threading.Event(), threading.Event()

    def touch() -> None:
        go.wait(60)
        touch_pages(3000)
        done.set()

    worker = threading.Thread(target=touch)
    worker.start()
    collector = perf.open_collector(asked(events=["minor-faults"]))
    collector.begin()
    go.set()
    assert done.wait(60)
    found = totals(collector.end())
    worker.join()
    assert found["perf.minor-faults"] >= 3000 * 0.9


@needs_perf
def test_only_the_events_asked_for_are_counted() -> None:
    collector = perf.open_collector(asked(events="minor-faults+task-clock"))
    assert set(totals(around(collector, pages=10))) == {"perf.minor-faults", "perf.task-clock"}


@needs_perf
def test_counters_are_closed_after_each_block() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    around(perf.open_collector(asked()), pages=1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_unknown_event_is_refused_with_those_known() -> None:
    with pytest.raises(
        CollectorUnavailable, match=r"no event 'cycle'; known: task-clock, .*cycles"
    ):
        perf.open_collector(asked(events=["cycle"]))


def test_hardware_counters_are_there_or_it_says_why_not() -> None:
    found = perf.availability()
    assert (Level.HARDWARE in found.levels) != ("hardware: " in found.reason)


@pytest.mark.parametrize(
    ("code", "event", "reason"),
    [
        (13, "task-clock", "not allowed: kernel.perf_event_paranoid is"),
        (2, "cycles", "a virtual machine has what its host passes on"),
        (38, "task-clock", "perf_event_open: "),
    ],
)
def test_a_refusal_is_told_in_words(code: int, event: str, reason: str) -> None:
    error = OSError(code, os.strerror(code))
    assert reason in perf_events.refusal(error, perf_events.EVENTS[event])


def test_a_raw_event_is_read_as_hexadecimal() -> None:
    event = perf_events.event_named("r01c7")
    assert (event.type, event.config, event.level) == (4, 0x1C7, Level.HARDWARE)


def test_every_known_collector_says_what_it_gives() -> None:
    for name in collector_names():
        found = availability_of(name)
        assert isinstance(found, Availability)
        assert found.levels or found.reason, name


def test_one_that_is_not_known_gives_nothing() -> None:
    assert availability_of("nosuch").reason.startswith("unknown; known: ")
