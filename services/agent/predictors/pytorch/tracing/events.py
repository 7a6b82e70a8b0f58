"""Layers of compiled, scripted and exported PyTorch programs: the operators in Kineto's trace.

Their modules are not wrapped: that would break a compiled graph, and a script has no Python. A row
is the outermost operator of a call, or one inside the regions that only contain others.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch._C._autograd import DeviceType

from mlscope.tracing.clock import epoch_offset_ns, now_ns
from mlscope.tracing.layer_attributes import LayerAttributes
from services.agent.predictors import Layer, Tensors
from services.agent.predictors.pytorch.tracing.kernels import Origins, origins_of
from services.agent.predictors.pytorch.tracing.probe import Operator, memory_of
from services.agent.predictors.pytorch.tracing.profiler import PROFILER, SharedProfiler

MODEL_CALL = "mlscope.model call"
"""The region around a model's own call: operators of the predictor outside of it are no layers."""

_TAKEN_NOTE = (
    "layers are missing: something else took PyTorch's profiler over while the block was measured"
)

_CONTAINER = re.compile(
    r"Torch-Compiled Region|## Call CompiledFxGraph|Pregraph bytecode|AOTDispatcher Runtime"
    r"|forward$|<forward op>|ProfilerStep|torch::jit::|mlscope\."
)
_FUSED = re.compile(r"(?:graph_\d+_)?(?P<kind>cpp|triton)_\w*?fused_\w+$")
#: calls of CUDA, which a session shared with a collector has too; they are no operators
_CUDA_CALL = re.compile(r"cu(da)?[A-Z]|Activity Buffer Request")
_FX_GRAPH = re.compile(r"## Call CompiledFxGraph (\w+)")


@dataclass(frozen=True, slots=True)
class Event:
    """One CPU event: CLOCK_MONOTONIC ns, and the regions around it from the outside in."""

    name: str
    start_ns: int
    end_ns: int
    thread: int
    regions: tuple[str, ...] = ()


@dataclass(slots=True)
class EventNames:
    """Names and attributes of a program's layers, computed once for each operator of a call."""

    provider: str
    #: operators of one uncounted call, by operator name
    operators: Mapping[str, Sequence[Operator]] = field(default_factory=dict)
    #: qualified names of a program's nodes, by operator name
    qualified_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: the original operators of compiled kernels
    origins: Origins = field(default_factory=dict)
    _rows: dict[tuple[str, int], tuple[str, bytes]] = field(default_factory=dict)

    def layers_of(self, events: Iterable[Event]) -> list[Layer]:
        """Return the layers of one call; `events` are its rows in order (see `rows_of`)."""
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
        """Return the layer name and attributes of the `nth` of a call's `total` such events.

        What is known of operators is used only where the call has just as many of this name.
        """
        operators = self.operators.get(event.name, ())
        names = self.qualified_names.get(event.name, ())
        fused = _FUSED.search(event.name)
        region = {"region": " > ".join(event.regions)} if event.regions else {}
        attributes = LayerAttributes(
            index=len(self._rows),
            type=f"{fused['kind']} kernel" if fused else event.name,
            provider=self.provider,
            original=origins_of(self.origins, event.name, nth),
            extra={"measured": "Kineto", **region},
        )
        if len(operators) == total:
            operator = operators[nth]
            memory_bytes, memory_kind = memory_of([operator], operator.new_bytes)
            attributes = replace(
                attributes,
                shapes=operator.shapes,
                input_shapes=operator.input_shapes,
                memory_bytes=memory_bytes,
                memory_kind=memory_kind,
                flops=operator.flops,
                bytes_read=operator.bytes_read,
                bytes_written=operator.bytes_written,
            )
        qualified_name = names[nth] if len(names) == total else ""
        return qualified_name or event.name, attributes.text()


class KinetoCapture:
    """One block of predict calls with PyTorch's profiler, which a collector may share."""

    def __init__(
        self,
        names: EventNames,
        predict: Callable[[Tensors], Tensors],
        warmed_with: Sequence[Tensors],
        notes: Sequence[str] = (),
        profiler: SharedProfiler = PROFILER,
    ) -> None:
        """Predict each batch of `warmed_with` once, uncounted, and start the profiler.

        `names` describes the operators; `predict` runs the model; `notes` precede the capture's
        own. Raises PredictFailed.
        """
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
            f"operators' times are PyTorch's, on mlscope's clock to within {moved_ns + 1000} ns"
        )
        operators = list(events_in(events, offset_ns))
        if self._calls and not operators:
            self.notes.append(_TAKEN_NOTE)
        return [
            self._names.layers_of(rows_of(model_events(call_events)))
            for call_events in by_call(operators, self._calls)
        ]


def events_in(kineto_events: Iterable[Any], offset_ns: int) -> Iterator[Event]:
    """Yield the operators of Kineto's events on CLOCK_MONOTONIC, where the epoch is `offset_ns`."""
    for event in kineto_events:
        if event.device_type() == DeviceType.CPU and not _CUDA_CALL.match(event.name()):
            start = event.start_ns() - offset_ns
            end = start + event.duration_ns()
            yield Event(event.name(), start, end, int(event.device_resource_id()))


def by_call(events: Sequence[Event], calls: Sequence[tuple[int, int]]) -> list[list[Event]]:
    """Return the events that began in each call, cut at its end; others are left out.

    `calls`: begin and end of each, ascending, CLOCK_MONOTONIC ns.
    """
    begins = [begin for begin, _ in calls]
    events_by_call: list[list[Event]] = [[] for _ in calls]
    for event in events:
        number = bisect_right(begins, event.start_ns) - 1
        if number >= 0 and event.start_ns < calls[number][1]:
            events_by_call[number].append(_cut(event, calls[number][1]))
    return events_by_call


def model_events(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events of a call that began in `MODEL_CALL`; all of a call without this region."""
    region = next((event for event in events if event.name == MODEL_CALL), None)
    if region is None:
        return events
    return [
        _cut(event, region.end_ns)
        for event in events
        if event is not region and region.start_ns <= event.start_ns < region.end_ns
    ]


def rows_of(events: Iterable[Event]) -> list[Event]:
    """Return the outermost events by start; of one that only contains others, those inside."""
    rows, open_regions, ends = [], dict[int, list[Event]](), dict[int, int]()
    for event in sorted(events, key=lambda event: (event.start_ns, -event.end_ns)):
        regions = open_regions.setdefault(event.thread, [])
        while regions and regions[-1].end_ns <= event.start_ns:
            regions.pop()
        if event.start_ns < ends.get(event.thread, 0):
            continue
        if _CONTAINER.search(event.name):
            regions.append(event)
            continue
        ends[event.thread] = event.end_ns
        names = tuple(
            _FX_GRAPH.sub(r"CompiledFxGraph \1", region.name).strip("# ") for region in regions
        )
        rows.append(Event(event.name, event.start_ns, event.end_ns, event.thread, names))
    return rows


def _cut(event: Event, end_ns: int) -> Event:
    if event.end_ns <= end_ns:
        return event
    return Event(event.name, event.start_ns, end_ns, event.thread, event.regions)
