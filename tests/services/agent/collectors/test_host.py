"""Collectors of the host: they count real work of this process."""

import errno
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
    resource,
)
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.perf import collector as perf
from services.agent.collectors.perf import events as perf_events
from services.agent.collectors.perf.events import Event, Reading
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
    assert "can't be read" in resource.availability().reason


needs_perf = pytest.mark.skipif(
    Level.SYSTEM not in perf.availability().levels, reason="this machine allows no perf events"
)


@needs_perf
def test_software_events_count_every_thread() -> None:
    found = totals(around(perf.open_collector(asked()), pages=3000))
    assert found["perf.page-faults"] >= 6000 * 0.9
    assert found["perf.task-clock"] > 0
    # Switches and migrations happen in the kernel, which not every user may count.
    names = {name.partition(".")[2] for name in found}
    assert names - {"context-switches", "cpu-migrations"} == {"task-clock", "page-faults"}


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
        CollectorUnavailable, match=r"no event 'cycle'; the events are task-clock, .*cycles"
    ):
        perf.open_collector(asked(events=["cycle"]))


def test_hardware_counters_are_there_or_it_says_why_not() -> None:
    found = perf.availability()
    assert (Level.HARDWARE in found.levels) != ("hardware: " in found.reason)


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let perf count nothing of the kernel, as of any user but root at perf_event_paranoid 2."""
    opened = perf_events._opened

    def refusing(number: int, event: Event, thread: int, flags: int) -> int:
        if not flags & 1 << 5:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(number, event, thread, flags)

    monkeypatch.setattr(perf_events, "_opened", refusing)
    monkeypatch.setattr(perf_events, "_PARANOID", Paranoid("2"))


class Paranoid:
    """The kernel's file, with another level in it."""

    def __init__(self, level: str) -> None:
        self._level = level

    def exists(self) -> bool:
        """Say that it is there."""
        return True

    def read_text(self) -> str:
        """Return the level."""
        return f"{self._level}\n"


@needs_perf
@pytest.mark.usefixtures("no_kernel")
def test_what_happens_in_the_kernel_is_left_out_where_it_may_not_be_counted() -> None:
    collected = around(perf.open_collector(asked()), pages=1000)
    assert {*totals(collected)} == {"perf.task-clock", "perf.page-faults"}
    (note,) = collected.notes
    assert note.startswith(
        "context-switches, cpu-migrations: not allowed: it happens in the kernel"
    )
    assert "1 or less is needed, or CAP_PERFMON" in note


@needs_perf
def test_more_counters_than_files_leave_none_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def until_full(event: Event, thread: int) -> int:
        if len(opened) == 5:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        opened.append(perf_events.open_event(event, thread))
        return opened[-1]

    # Events that any kernel lets be counted, however little it allows.
    collector = perf.open_collector(asked(events="task-clock+page-faults"))
    monkeypatch.setattr(perf, "open_event", until_full)
    monkeypatch.setattr(perf, "thread_ids", lambda: [os.getpid()] * 30)
    with pytest.raises(CollectorUnavailable, match="too many open files: 30 threads x 2 events"):
        collector.begin()
    assert len(opened) == 5
    for fd in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


@pytest.mark.parametrize(
    ("readings", "share", "value"),
    [
        ([Reading(7, 100, 100), Reading(0, 0, 0)], 1.0, 7),
        ([Reading(7, 100, 50), Reading(0, 100, 0)], 0.25, 14),
        ([Reading(0, 100, 0), Reading(0, 0, 0)], 0.0, 0),
        ([], 1.0, 0),
    ],
)
def test_what_was_not_counted_is_no_zero(
    readings: list[Reading], share: float, value: float
) -> None:
    assert perf.counted_share(readings) == share
    assert sum(each.scaled for each in readings) == value


@needs_perf
def test_an_event_without_a_register_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = perf.open_collector(asked(events="minor-faults+task-clock"))
    read = iter([Reading(0, 10, 0), Reading(5, 10, 10)])
    monkeypatch.setattr(perf, "thread_ids", lambda: [os.getpid()])
    monkeypatch.setattr(perf, "read_event", lambda _: next(read))
    collector.begin()
    collected = collector.end()
    assert {*totals(collected)} == {"perf.task-clock"}
    assert "minor-faults: not counted in every block" in collected.notes[-1]


@pytest.mark.parametrize(
    ("level", "event", "reason"),
    [
        ("2", "task-clock", "not allowed by this container (seccomp)"),
        ("1", "context-switches", "not allowed by this container (seccomp)"),
        ("2", "context-switches", "not allowed: it happens in the kernel"),
        ("4", "cycles", "is 4, 2 or less is needed"),
        ("-1", "cycles", "kernel.perf_event_paranoid is -1, which is enough"),
    ],
)
def test_who_does_not_allow_it_is_told(
    monkeypatch: pytest.MonkeyPatch, level: str, event: str, reason: str
) -> None:
    monkeypatch.setattr(perf_events, "_PARANOID", Paranoid(level))
    error = OSError(errno.EPERM, "Operation not permitted")
    assert reason in perf_events.refusal(error, perf_events.EVENTS[event])


@pytest.mark.parametrize(
    ("name", "kind", "config"),
    [
        ("cpu-clock", 1, 0),
        ("cs", 1, 3),
        ("ref-cycles", 0, 9),
        ("branches", 0, 4),
        ("L1-dcache-loads", 3, 0x00000),
        ("L1-dcache-load-misses", 3, 0x10000),
        ("LLC-load-misses", 3, 0x10002),
        ("LLC-store-misses", 3, 0x10102),
        ("dTLB-prefetches", 3, 0x00203),
        ("node-prefetch-misses", 3, 0x10206),
        ("r01C7", 4, 0x1C7),
    ],
)
def test_the_kernels_own_events_are_known(name: str, kind: int, config: int) -> None:
    event = perf_events.event_named(name)
    assert (event.type, event.config) == (kind, config)


@pytest.mark.parametrize("name", ["r", "LLC-prefetchs", "LLC-loades", "L9-loads", "r" + "1" * 17])
def test_other_names_are_none(name: str) -> None:
    with pytest.raises(KeyError):
        perf_events.event_named(name)


@needs_perf
def test_an_alias_is_counted_by_its_events_name() -> None:
    collector = perf.open_collector(asked(events="faults+page-faults"))
    assert {*totals(around(collector, pages=10))} == {"perf.page-faults"}


@pytest.mark.parametrize(
    ("code", "event", "reason"),
    [
        (13, "task-clock", "not allowed"),
        (22, "bus-cycles", "this processor can't count it"),
        (2, "cycles", "a virtual machine has what its host exposes"),
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
