"""The messages between host and worker as bytes and back."""

from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.encoding.errors import MalformedMessage
from schemas.level import Level
from schemas.run import Ceiling, ClockOrigin, Conditions, RunCompleted, RunFailed, Tally
from services.agent.link.allowances import Allowances, InlineLimits
from services.agent.link.fetched_file import FetchedFile
from services.agent.link.messages import (
    AttemptKey,
    CloseSession,
    FinishLoad,
    IssueQuery,
    LoadAwaited,
    OrderDone,
    PerformOrder,
    QueryAnswered,
    RunEnded,
    StopRun,
    ToHost,
    ToWorker,
    decode_to_host,
    decode_to_worker,
    encode,
)
from services.agent.machine.roofline.ceilings import Roof
from tests.services.agent.builders import a_run, a_subject, an_order

TEXTS = st.text(max_size=20)
INTEGERS = st.integers(-(2**63), 2**64 - 1)
COUNTS = st.integers(0, 2**40)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,10}", fullmatch=True)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False) | TEXTS
KEYS = st.builds(AttemptKey, NAMES, NAMES, COUNTS)
FILES = st.builds(FetchedFile, st.sampled_from([Path("a/b"), Path("/c"), Path()]), TEXTS, TEXTS)
CEILINGS = st.builds(
    Ceiling,
    measured=st.none() | st.floats(allow_nan=False),
    method=TEXTS,
    uncertainty=st.none() | st.floats(0, 1),
    measured_ns=st.none() | COUNTS,
    conditions=st.dictionaries(TEXTS, SCALARS, max_size=3),
)
BY_THREADS = st.dictionaries(st.integers(0, 64), CEILINGS, max_size=3)
ROOFS = st.builds(
    Roof,
    kind=st.sampled_from(["", "cpu", "gpu"]),
    device=TEXTS,
    peaks=st.dictionaries(TEXTS, BY_THREADS, max_size=3),
    bandwidths=BY_THREADS,
    missing=st.dictionaries(TEXTS, TEXTS, max_size=3),
    note=TEXTS,
    disturbance=TEXTS,
)
ALLOWANCES = st.builds(
    Allowances,
    inline=st.none() | st.builds(InlineLimits, timeout_s=st.floats(0, 1e6), cpu_s=COUNTS),
    builders=st.lists(TEXTS, max_size=3).map(tuple),
    remote_hosts=st.lists(TEXTS, max_size=3).map(tuple),
)
SUBJECT = a_subject()
ORDERS = st.builds(
    lambda runs, level, options: an_order(
        SUBJECT.model_copy(update={"options": options}),
        tuple(a_run(f"r{number}", level=level) for number in range(runs)),
    ),
    st.integers(1, 3),
    st.sampled_from(["none", "model", "framework", "full"]),
    st.dictionaries(TEXTS, st.booleans() | st.integers(-100, 100) | TEXTS, max_size=3),
)
TALLIES = st.builds(Tally, queries=COUNTS, spans=COUNTS, dropped_batches=COUNTS)
CONDITIONS = st.builds(Conditions, framework=TEXTS, options=st.dictionaries(TEXTS, TEXTS))
ORIGIN = ClockOrigin(
    monotonic_ns=1, epoch_start_ns=2, monotonic_end_ns=3, epoch_end_ns=4, boot_id="b"
)
OUTCOMES = st.builds(
    RunFailed,
    evaluation=NAMES,
    run=NAMES,
    attempt=st.integers(1, 9),
    agent=NAMES,
    error=NAMES,
    message=TEXTS,
    tally=TALLIES,
    origin=st.sampled_from([None, ORIGIN]),
    conditions=CONDITIONS,
    level=st.sampled_from(Level),
) | st.builds(
    RunCompleted,
    evaluation=NAMES,
    run=NAMES,
    attempt=st.integers(1, 9),
    agent=NAMES,
    tally=TALLIES,
    origin=st.just(ORIGIN),
    conditions=CONDITIONS,
    level=st.sampled_from(Level),
    caveats=st.lists(TEXTS, max_size=3).map(tuple),
)
PAYLOADS = st.binary(max_size=20) | st.dictionaries(TEXTS, st.binary(max_size=20), max_size=2)
TO_WORKER = st.one_of(
    st.builds(
        PerformOrder,
        ORDERS,
        st.just(Path("/manifests")),
        st.dictionaries(TEXTS, FILES, max_size=3),
        ALLOWANCES,
        ROOFS,
    ),
    st.builds(StopRun, KEYS, TEXTS),
    st.builds(FinishLoad, KEYS),
    st.builds(
        IssueQuery,
        KEYS,
        INTEGERS,
        st.lists(INTEGERS, max_size=5).map(tuple),
        COUNTS,
        INTEGERS,
        st.none() | st.lists(PAYLOADS, max_size=3).map(tuple),
    ),
    st.just(CloseSession()),
)
TO_HOST = st.one_of(
    st.builds(LoadAwaited, NAMES),
    st.builds(QueryAnswered, NAMES, INTEGERS, st.integers(0, 1), COUNTS, TEXTS, COUNTS),
    st.builds(RunEnded, OUTCOMES),
    st.just(OrderDone()),
)


@given(TO_WORKER)
def test_every_message_to_the_worker_returns_from_its_bytes(message: ToWorker) -> None:
    assert decode_to_worker(encode(message)) == message


@given(TO_HOST)
def test_every_message_to_the_host_returns_from_its_bytes(message: ToHost) -> None:
    assert decode_to_host(encode(message)) == message


@given(TO_HOST)
def test_a_message_of_the_other_direction_is_malformed(message: ToHost) -> None:
    with pytest.raises(MalformedMessage, match="a pair of one of PerformOrder"):
        decode_to_worker(encode(message))


@pytest.mark.parametrize("body", [b"", b"torn", b"\xc1", msgpack.packb(7), msgpack.packb([{}, 1])])
def test_bytes_that_are_no_message_are_malformed(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_to_host(body)


@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [
        ("StopRun", {}, "StopRun.key"),
        ("IssueQuery", {"key": ["e", "r", 1], "query": "x"}, "IssueQuery.query"),
        ("PerformOrder", {"order": {"evaluation": "e"}}, "PerformOrder.order"),
    ],
)
def test_a_fault_names_the_message_and_its_field(name: str, fields: Any, field: str) -> None:
    with pytest.raises(MalformedMessage) as raised:
        decode_to_worker(msgpack.packb([name, fields]))
    assert raised.value.field.startswith(field)
