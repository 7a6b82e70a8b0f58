"""Collectors driven around blocks: shipped ones, and one that lives outside the tree."""

from pathlib import Path
from typing import Any, NoReturn

import nvtx
import pytest

from mlscope.tracing import marker, span
from mlscope.tracing.batches import Attempt, columns_of
from mlscope.tracing.clock import now_ns
from schemas.batch import Batch, SpanKind, TraceCaptured
from schemas.level import Level
from schemas.request import Blocks
from schemas.run import RunCompleted
from services.agent.collectors import (
    Availability,
    CollectorRequest,
    availability_of,
    collector_names,
    resource,
)
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.otlp.collector import RECEIVERS
from services.agent.link.batches import unpack_batch
from services.agent.predictors import Opened
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.open_collectors import CollectorContext, OpenCollectors, open_collectors
from services.agent.worker.recorder import RunRecorder
from services.agent.worker.session import Session
from tests.services.agent.builders import a_run, a_subject, an_order

SIMULATED = Path(__file__).parents[1] / "collectors" / "simulated"
SWITCHED_OFF = dict.fromkeys(
    ("kineto", "cupti", "nvml", "ncu", "perf", "resource", "onednn", "energy"), False
)


@pytest.fixture(autouse=True)
def _packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SIMULATED))


def opened(framework: str = "onnxruntime", device: str = "cpu") -> Opened:
    return Opened(framework, "1", (), (), device, "", "float32", 1, {})


def collecting(level: Level = Level.SYSTEM, variant: str = "", **switches: Any) -> OpenCollectors:
    return open_collectors(CollectorContext(opened(), level, variant, {**SWITCHED_OFF, **switches}))


class Heard:
    """What a run handed over."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def __call__(self, body: bytes) -> bool:
        """Take a batch."""
        self.batches.append(unpack_batch(body))
        return True

    def rows(self, prefix: str) -> list[dict[str, int]]:
        """Return the spans whose name begins so, as maps."""
        rows = []
        for batch in self.batches:
            if not isinstance(batch, TraceCaptured):
                continue
            names = dict(zip(batch.name_ids, batch.name_texts, strict=True))
            columns = {name: values.tolist() for name, values in columns_of(batch).items()}
            for values in zip(*columns.values(), strict=True):
                row = dict(zip(columns, values, strict=True))
                if names[row["name"]].startswith(prefix):
                    rows.append(row)
        return rows


def run(session: Session, level: str, **switches: Any) -> tuple[RunCompleted, Heard]:
    """Do a run of three blocks with some collectors."""
    heard = Heard()
    asked = {**SWITCHED_OFF, **switches}
    subject = a_subject(blocks=Blocks(least=3, most=3), collectors=asked)
    order = an_order(subject, (a_run(level=level),))
    (outcome,) = Group(session, order, Control(), heard, lambda _: None).perform()
    assert isinstance(outcome, RunCompleted)
    return outcome, heard


def test_a_collector_of_another_package_is_found_and_driven(session: Session) -> None:
    outcome, heard = run(session, "system", simulated={"hz": 1e6, "kernels": 2})
    kernels = heard.rows("simulated.kernel")
    assert [row["block"] for row in kernels] == [0, 0, 1, 1, 2, 2]
    assert {row["kind"] for row in kernels} == {SpanKind.KERNEL}
    assert [row["correlation"] for row in kernels] == [0, 1] * 3
    assert {row["duration_ns"] for row in kernels} == {500_000}
    assert "simulated: time is simulated" in outcome.caveats
    assert outcome.level == Level.SYSTEM
    assert len({row["span"] for row in heard.rows("")}) == outcome.tally.spans


def test_a_block_lies_between_begin_and_end(session: Session) -> None:
    _, heard = run(session, "system", simulated={"kernels": 1})
    for block in range(3):
        queries = [row["start_ns"] for row in heard.rows("query") if row["block"] == block]
        (kernel,) = (row for row in heard.rows("simulated.kernel") if row["block"] == block)
        assert kernel["start_ns"] <= min(queries)


def test_what_was_dropped_is_counted_and_said(session: Session) -> None:
    outcome, _ = run(session, "system", simulated={"drops": 2})
    assert outcome.tally.dropped_records == 6
    assert "simulated: 2 records were dropped" in outcome.caveats


@pytest.mark.parametrize("where", ["begin", "end"])
def test_a_collector_that_fails_takes_no_run_along(session: Session, where: str) -> None:
    outcome, heard = run(session, "system", simulated={"fails_in": where})
    assert f"collector simulated failed: cycle overflow in {where}" in outcome.caveats
    assert [block.queries for block in outcome.blocks] == [5, 5, 5]
    assert heard.rows("simulated") == []


@pytest.mark.parametrize("where", ["begin", "end", "close"])
def test_one_that_fails_is_closed_once(where: str) -> None:
    closed = []

    class Failing:
        """Fails where it is told to."""

        name, level = "failing", Level.SYSTEM

        def begin(self) -> None:
            """Fail, if it is here."""
            self._fail("begin")

        def end(self) -> Any:
            """Fail, if it is here."""
            self._fail("end")

        def close(self) -> None:
            """Say so, then fail as closing does after a failure."""
            closed.append(where)
            self._fail("close")

        def _fail(self, at: str) -> None:
            if at == where:
                raise CollectorUnavailable("failing", f"lost in {at}")

    several = OpenCollectors([Failing()])
    with several.block():
        pass
    is_left_out = several.names == ()
    assert is_left_out is (where != "close")
    assert closed == [where] * is_left_out
    several.close()
    assert closed == [where]
    assert several.notes == [f"collector failing failed: lost in {where}"]


def test_one_that_can_not_be_opened_is_said_where_it_was_asked_for() -> None:
    asked = collecting(simulated={"fails_in": "open"})
    assert asked.notes == ["collector simulated: out of simulated memory"]
    assert collecting(nosuch=True).notes[0].startswith("collector nosuch: unknown; known: ")


def test_one_that_is_available_and_can_not_be_opened_is_always_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: CollectorRequest) -> NoReturn:
        raise CollectorUnavailable("resource", "No module named 'elftools'")

    monkeypatch.setattr(resource, "open_collector", fail)
    switches = dict.fromkeys({*collector_names()} - {"resource"}, False)
    context = CollectorContext(opened(), Level.SYSTEM, switches=switches)
    assert open_collectors(context).notes == ["collector resource: No module named 'elftools'"]


def test_an_option_that_a_collector_does_not_know_is_said() -> None:
    asked = collecting(resource={"rate_hs": 5}, markers={"speed": 1})
    assert asked.notes == [
        "collector markers: unknown option 'speed'; allowed: none",
        "collector resource: unknown option 'rate_hs'; allowed: rate_hz",
    ]
    assert not {"markers", "resource"} & {*asked.names}
    right = collecting(resource={"rate_hz": 5})
    assert right.notes == []
    assert "resource" in right.names
    right.close()


def test_one_that_can_not_even_say_what_it_gives_gives_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> Availability:
        raise ImportError("no libsim.so")

    monkeypatch.setattr("simulated_collector.availability", broken)
    assert availability_of("simulated") == Availability((), "no libsim.so")


def test_a_switch_turns_one_off() -> None:
    assert "simulated" in collecting().names
    off = collecting(simulated=False)
    assert ("simulated" in off.names, off.missing.get("simulated")) == (False, None)


def test_one_that_waits_to_be_asked_for_is_closed_until_then() -> None:
    assert "otlp" not in collecting().names
    asked = collecting(otlp=True)
    assert "otlp" in asked.names
    asked.close()
    RECEIVERS.close()
    assert collecting(otlp={"flush_s": -1}).notes == [
        "collector otlp: flush_s is -1; it must be from 0 to 30"
    ]


def test_shallow_ones_are_around_deep_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("simulated", "markers")
    monkeypatch.setattr("services.agent.worker.open_collectors.collector_names", lambda: names)
    assert collecting().names == ("markers", "simulated")


def test_a_collector_begins_at_its_level() -> None:
    assert collecting(Level.FRAMEWORK).names == ("markers", "nvtx")
    assert collecting(Level.NONE).names == ()
    assert collecting(Level.FRAMEWORK).missing["simulated"] == "it begins at level system"


def test_a_run_without_collectors_is_as_deep_as_its_framework(session: Session) -> None:
    outcome, _ = run(session, "system", simulated=False)
    assert outcome.level == Level.FRAMEWORK
    note = "level system was requested, but onnxruntime on this agent can only be traced down to "
    assert outcome.level_note.startswith(f"{note}level framework")


def test_a_level_in_between_that_nothing_gives_is_named(session: Session) -> None:
    outcome, _ = run(session, "system")
    assert outcome.level == Level.SYSTEM
    assert "has no level library" in outcome.level_note


def test_what_is_for_other_devices_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for_gpus = Availability((Level.SYSTEM,), devices=("gpu",))
    monkeypatch.setattr(
        "services.agent.worker.open_collectors.availability_of", lambda _name: for_gpus
    )
    assert collecting().missing == {}
    switched = collecting(simulated=True)
    assert (switched.missing, switched.notes) == ({}, ["collector simulated: it is for gpu"])


def test_counters_that_are_read_apart_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Availability((Level.HARDWARE,))
    monkeypatch.setattr(
        "services.agent.worker.open_collectors.availability_of", lambda _name: counting
    )
    apart = "hardware counters are read in runs of their own"
    assert collecting(Level.FULL).missing["simulated"] == apart
    assert collecting(Level.SYSTEM).missing["simulated"] == "it begins at level hardware"


def test_counters_are_not_read_beside_what_is_timed() -> None:
    assert CollectorContext(opened(), Level.FULL).deepest == Level.SYSTEM
    assert CollectorContext(opened(), Level.HARDWARE, "counters").deepest == Level.HARDWARE


def test_the_last_collector_is_innermost() -> None:
    order: list[str] = []

    class Recording:
        """Says when it is called."""

        level = Level.SYSTEM

        def __init__(self, name: str) -> None:
            self.name = name

        def begin(self) -> None:
            """Say so."""
            order.append(f"begin {self.name}")

        def end(self) -> Any:
            """Say so."""
            order.append(f"end {self.name}")

        def close(self) -> None:
            """Say so."""
            order.append(f"close {self.name}")

    several = OpenCollectors([Recording("a"), Recording("b")])
    with several.block():
        order.append("block")
    several.close()
    assert order[:5] == ["begin a", "begin b", "block", "end b", "end a"]
    assert sorted(order[5:]) == ["close a", "close b"]


@pytest.mark.parametrize("odd", [{"a": object()}, {"a": "x" * 100_000}])
def test_attributes_that_can_t_be_kept_take_nothing_along(odd: dict[str, Any]) -> None:
    heard = Heard()
    recorder = RunRecorder(Attempt("e1", "r0", 1, "a1"), heard)
    several = collecting(Level.APPLICATION)
    with several.block():
        marker("odd", **odd)
    several.attach(recorder, 0)
    (batch,) = heard.batches
    assert isinstance(batch, TraceCaptured)
    assert len(heard.rows("odd")) == 1
    assert len(batch.attribute_texts[0]) < 500


def test_a_users_own_spans_are_recorded_while_a_block_runs() -> None:
    heard = Heard()
    recorder = RunRecorder(Attempt("e1", "r0", 1, "a1"), heard)
    several = collecting(Level.APPLICATION)
    with span("before"):
        pass
    with several.block():
        began_ns = now_ns()
        with span("tokenise", words=3):
            marker("cache miss")
        with nvtx.annotate("outer"), nvtx.annotate("inner"):
            pass
    several.attach(recorder, 4)
    (tokenise,), (miss,) = heard.rows("tokenise"), heard.rows("cache miss")
    assert heard.rows("before") == []
    assert (tokenise["level"], tokenise["kind"], tokenise["block"]) == (1, SpanKind.HOST, 4)
    assert (miss["kind"], miss["duration_ns"]) == (SpanKind.MARKER, 0)
    assert began_ns <= tokenise["start_ns"] <= miss["start_ns"]
    assert (tokenise["parent"], miss["parent"]) == (-1, tokenise["span"])
    (outer,), (inner,) = heard.rows("outer"), heard.rows("inner")
    assert (outer["parent"], inner["parent"]) == (-1, outer["span"])
    assert len({row["span"] for row in heard.rows("")}) == 4
