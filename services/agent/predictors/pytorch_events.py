"""Layers of compiled, scripted and exported PyTorch programs: the operators Kineto saw on the CPU.

Nothing of them is wrapped: that would break a compiled graph, and a script has no Python. A row
is the outermost operator of a call, or one inside the regions that only hold others.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch._C._autograd import DeviceType

from mlscope.tracing.clock import epoch_offset_ns, now_ns
from services.agent.predictors import Layer, Tensors
from services.agent.predictors.natures import Nature
from services.agent.predictors.pytorch_kernels import Origins, origins_of
from services.agent.predictors.pytorch_probe import Operator, memory_of
from services.agent.predictors.pytorch_profiler import PROFILER, SharedProfiler

MODEL_CALL = "mlscope.model call"
"""The region around a model's own call: what a predictor does beside it is no layer."""

_TAKEN = "another user took PyTorch's profiler over during a block: its layers are missing"

_HOLDING = re.compile(
    r"Torch-Compiled Region|## Call CompiledFxGraph|Pregraph bytecode|AOTDispatcher Runtime"
    r"|forward$|<forward op>|ProfilerStep|torch::jit::|mlscope\."
)
_FUSED = re.compile(r"(?:graph_\d+_)?(?P<kind>cpp|triton)_\w*?fused_\w+$")
#: calls of CUDA's, which a session that a collector shares has too: they are no operators
_CALL = re.compile(r"cu(da)?[A-Z]|Activity Buffer Request")
_FX_GRAPH = re.compile(r"## Call CompiledFxGraph (\w+)")


@dataclass(frozen=True, slots=True)
class Event:
    """One CPU event: monotonic nanoseconds, and the regions around it from outside in."""

    name: str
    start_ns: int
    end_ns: int
    thread: int
    regions: tuple[str, ...] = ()


@dataclass(slots=True)
class EventNames:
    """Names and attributes of a program's rows, by a row's name and its place among its like."""

    provider: str
    #: what one uncounted call showed, by operator name
    operators: Mapping[str, Sequence[Operator]] = field(default_factory=dict)
    #: qualified names of a program's nodes, by operator name
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: what compiled kernels do the work of
    origins: Origins = field(default_factory=dict)
    _rows: dict[tuple[str, int], tuple[str, bytes]] = field(default_factory=dict)

    def layers_of(self, events: Iterable[Event]) -> list[Layer]:
        """Return the rows of one call as layers."""
        events = list(events)
        totals, counts = Counter(event.name for event in events), Counter[str]()
        layers = []
        for event in events:
            key = (event.name, counts[event.name])
            counts[event.name] += 1
            if key not in self._rows:
                self._rows[key] = self._row(event, key[1], totals[event.name])
            name, attributes = self._rows[key]
            duration = event.end_ns - event.start_ns
            layers.append(Layer(name, event.start_ns, duration, event.thread, attributes))
        return layers

    def _row(self, event: Event, nth: int, total: int) -> tuple[str, bytes]:
        known = _nth(self.operators.get(event.name, ()), nth, total)
        place = _nth(self.places.get(event.name, ()), nth, total)
        fused = _FUSED.search(event.name)
        memory_bytes, memory_kind = memory_of([known], known.new_bytes) if known else (None, "")
        nature = Nature(
            index=len(self._rows),
            type=f"{fused['kind']} kernel" if fused else event.name,
            shapes=known.shapes if known else (),
            input_shapes=known.input_shapes if known else None,
            provider=self.provider,
            original=origins_of(self.origins, event.name, nth),
            memory_bytes=memory_bytes,
            memory_kind=memory_kind,
            flops=known.flops if known else None,
            bytes_read=known.bytes_read if known else None,
            bytes_written=known.bytes_written if known else None,
            more={
                "measured": "Kineto",
                **({"region": " > ".join(event.regions)} if event.regions else {}),
            },
        )
        return (place or event.name), nature.text()


class KinetoCapture:
    """One block of predict calls with PyTorch's profiler on, which a collector may share."""

    def __init__(
        self,
        names: EventNames,
        predict: Callable[[Tensors], Tensors],
        warmed_with: Sequence[Tensors],
        notes: Sequence[str] = (),
        profiler: SharedProfiler = PROFILER,
    ) -> None:
        """Predict each batch once, uncounted, and begin. Raises PredictFailed."""
        self._names = names
        self._profiler = profiler
        self._predict = predict
        self.notes: list[str] = list(notes)
        self._calls: list[tuple[int, int]] = []
        for inputs in warmed_with:
            predict(inputs)
        profiler.watch_host()
        self._began_offset_ns = epoch_offset_ns()

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        began = now_ns()
        outputs = self._predict(inputs)
        self._calls.append((began, now_ns()))
        return outputs

    def close(self) -> list[list[Layer]]:
        """End the profile and return the rows of each call."""
        offset_ns = epoch_offset_ns()
        events = self._profiler.host_events()
        moved_ns = abs(offset_ns - self._began_offset_ns)
        self.notes.append(
            f"operators' times are PyTorch's, put on our clock to within {moved_ns + 1000} ns"
        )
        found = list(events_in(events, offset_ns))
        if self._calls and not found:
            self.notes.append(_TAKEN)
        calls = by_call(found, self._calls)
        return [self._names.layers_of(rows_of(of_model(each))) for each in calls]


def events_in(found: Iterable[Any], offset_ns: int) -> Iterator[Event]:
    """Yield the operators of Kineto's events on our clock; `offset_ns` is the epoch's on it."""
    for each in found:
        if each.device_type() == DeviceType.CPU and not _CALL.match(each.name()):
            start = each.start_ns() - offset_ns
            end = start + each.duration_ns()
            yield Event(each.name(), start, end, int(each.device_resource_id()))


def by_call(events: Sequence[Event], calls: Sequence[tuple[int, int]]) -> list[list[Event]]:
    """Return the events that began in each call, cut to it; those between calls are left out."""
    begins = [begin for begin, _ in calls]
    found: list[list[Event]] = [[] for _ in calls]
    for event in events:
        place = bisect_right(begins, event.start_ns) - 1
        if place >= 0 and event.start_ns < calls[place][1]:
            found[place].append(event)
    return [
        [_cut(event, end) for event in each] for each, (_, end) in zip(found, calls, strict=True)
    ]


def of_model(events: Sequence[Event]) -> Sequence[Event]:
    """Return those of a call's events that began in `MODEL_CALL`; all of a call without it."""
    region = next((each for each in events if each.name == MODEL_CALL), None)
    if region is None:
        return events
    begin, end = region.start_ns, region.end_ns
    inside = (each for each in events if each is not region and begin <= each.start_ns < end)
    return [_cut(each, end) for each in inside]


def rows_of(events: Iterable[Event]) -> list[Event]:
    """Return the outermost events, and where one only holds others, those inside, by begin."""
    rows, open_regions, ends = [], dict[int, list[Event]](), dict[int, int]()
    for event in sorted(events, key=lambda each: (each.start_ns, -each.end_ns)):
        regions = open_regions.setdefault(event.thread, [])
        while regions and regions[-1].end_ns <= event.start_ns:
            regions.pop()
        if event.start_ns < ends.get(event.thread, 0):
            continue
        if _HOLDING.search(event.name):
            regions.append(event)
            continue
        ends[event.thread] = event.end_ns
        names = tuple(
            _FX_GRAPH.sub(r"CompiledFxGraph \1", each.name).strip("# ") for each in regions
        )
        rows.append(Event(event.name, event.start_ns, event.end_ns, event.thread, names))
    return rows


def _cut(event: Event, end_ns: int) -> Event:
    if event.end_ns <= end_ns:
        return event
    return Event(event.name, event.start_ns, end_ns, event.thread, event.regions)


def _nth(values: Sequence[Any], nth: int, total: int) -> Any:
    """Return the nth of what a program has of a name; None unless a call has just as many."""
    return values[nth] if len(values) == total else None
