"""What passes between host and worker: typed messages, each a msgpack pair of name and fields.

Pure. `channel` sends them; a message of another direction, or with fields of another type, is
malformed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgpack
from pydantic import TypeAdapter, ValidationError

from schemas.encoding.errors import MalformedMessage
from schemas.plan import WorkOrder
from schemas.run import RunCompleted, RunFailed
from services.agent.link.allowances import Allowances
from services.agent.link.fetched_file import FetchedFile
from services.agent.machine.roofline.ceilings import Roof

MOST_WAITING = 65_536
"""Remote queries under way at a time; the next is answered as failed, `busy`."""

Outcome = RunCompleted | RunFailed


class AttemptKey(NamedTuple):
    """The name of one attempt of a run, as commands and leases give it."""

    evaluation: str
    run: str
    attempt: int


@dataclass(frozen=True, slots=True)
class PerformOrder:
    """Perform an order; the session opens with a worker's first order and stays open."""

    order: WorkOrder
    manifests_folder: Path
    #: files fetched for the session, by address
    files: Mapping[str, FetchedFile] = field(default_factory=dict)
    allowances: Allowances = field(default_factory=Allowances)
    #: the roof of the order's device
    roof: Roof = field(default_factory=Roof)


@dataclass(frozen=True, slots=True)
class StopRun:
    """End a run, also one that has not begun."""

    key: AttemptKey
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FinishLoad:
    """End a remote run's load: no query follows."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class IssueQuery:
    """Answer one query of a remote run."""

    key: AttemptKey
    query: int
    #: indices of its samples in the dataset
    samples: tuple[int, ...]
    #: CLOCK_MONOTONIC; when the host received it
    received_ns: int
    block: int = 0
    #: samples that came with the query, in place of the dataset's
    payload: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Close the session after the orders received so far, and exit."""


@dataclass(frozen=True, slots=True)
class LoadAwaited:
    """A remote run is open: its queries may be issued."""

    run: str


@dataclass(frozen=True, slots=True)
class QueryAnswered:
    """The answer to a query of a remote run."""

    run: str
    query: int
    #: 0: answered, 1: failed
    status: int
    #: how long the worker itself took
    service_ns: int = 0
    error: str = ""
    #: samples without an answer, of a query that was answered in part
    failed_samples: int = 0


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run ended; its last batch was handed over before."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class OrderDone:
    """Every run of the order has ended; the worker waits for the next order."""


ToWorker = PerformOrder | StopRun | FinishLoad | IssueQuery | CloseSession
ToHost = LoadAwaited | QueryAnswered | RunEnded | OrderDone

M = TypeVar("M")


def encode(message: ToWorker | ToHost) -> bytes:
    """Return a message as bytes."""
    name = type(message).__name__
    adapter: TypeAdapter[Any] = _TO_WORKER.get(name) or _TO_HOST[name]
    packed: bytes = msgpack.packb([name, adapter.dump_python(message)], default=_path_text)
    return packed


def decode_to_worker(body: bytes) -> ToWorker:
    """Return a message for the worker. Raises MalformedMessage."""
    return _decoded(body, _TO_WORKER)


def decode_to_host(body: bytes) -> ToHost:
    """Return a message for the host. Raises MalformedMessage."""
    return _decoded(body, _TO_HOST)


def _adapters(*types: type[M]) -> Mapping[str, TypeAdapter[M]]:
    return MappingProxyType({kind.__name__: TypeAdapter(kind) for kind in types})


_TO_WORKER: Mapping[str, TypeAdapter[ToWorker]] = _adapters(
    PerformOrder, StopRun, FinishLoad, IssueQuery, CloseSession
)
_TO_HOST: Mapping[str, TypeAdapter[ToHost]] = _adapters(
    LoadAwaited, QueryAnswered, RunEnded, OrderDone
)


def message_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each message by name."""
    adapters: Mapping[str, TypeAdapter[Any]] = {**_TO_WORKER, **_TO_HOST}
    return {name: adapter.json_schema() for name, adapter in adapters.items()}


def _decoded(body: bytes, adapters: Mapping[str, TypeAdapter[M]]) -> M:
    expected = f"a pair of one of {', '.join(adapters)} and its fields"
    try:
        name, fields = msgpack.unpackb(body, strict_map_key=False)
        adapter = adapters[name]
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise MalformedMessage(field="", found=repr(body[:64]), expected=expected) from error
    try:
        return adapter.validate_python(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        path = ".".join([name, *map(str, fault["loc"])])
        raise MalformedMessage(
            field=path, found=repr(fault["input"])[:64], expected=fault["msg"]
        ) from error


def _path_text(value: object) -> str:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a message between host and worker can't hold {type(value).__name__}")
