"""What a bundle's spans hold, without an analyzer: a GPU's machine has no Polars."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.offline.bundle import read
from mlscope.tracing.batches import columns_of
from mlscope.tracing.weights import PLACE, weights_prefix
from schemas.batch import SpanKind, TraceCaptured
from schemas.level import Level


@dataclass(frozen=True, slots=True)
class Told:
    """One span of a run; times are of its attempt's clock."""

    name: str
    level: int
    kind: int
    start_ns: int
    duration_ns: int
    query: int
    correlation: int
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def end_ns(self) -> int:
        """When it ended."""
        return self.start_ns + self.duration_ns

    @property
    def value(self) -> float:
        """A sample's value."""
        return float(self.attributes["value"])


def spans_of(path: Path, run: str) -> Iterator[Told]:
    """Yield a run's spans in the order they were written."""
    names = dict[int, str]()
    for fact in read(path).facts(run):
        if isinstance(fact, TraceCaptured):
            names.update(zip(fact.name_ids, fact.name_texts, strict=True))
            yield from _spans(fact, names)


def _spans(fact: TraceCaptured, names: Mapping[int, str]) -> Iterator[Told]:
    columns = {name: list(values) for name, values in columns_of(fact).items() if len(values)}
    kinds = columns.get("kind", [0] * fact.count)
    correlations = columns.get("correlation", [-1] * fact.count)
    texts = dict(zip(fact.attribute_rows, fact.attribute_texts, strict=True))
    for row in range(fact.count):
        text = texts.get(row)
        yield Told(
            names[columns["name"][row]],
            int(columns["level"][row]),
            int(kinds[row]),
            int(columns["start_ns"][row]),
            int(columns["duration_ns"][row]),
            int(columns["query"][row]),
            int(correlations[row]),
            json.loads(text) if text else {},
        )


def told_of(
    path: Path,
    run: str,
    name: str = "",
    *,
    level: Level | None = None,
    kind: SpanKind | None = None,
) -> list[Told]:
    """Return a run's spans of a name, level and kind; '' and None mean any."""
    return [
        each
        for each in spans_of(path, run)
        if name in ("", each.name)
        and (level is None or each.level == level)
        and (kind is None or each.kind == kind)
    ]


def counts_of(path: Path, run: str) -> Counter[tuple[int, int]]:
    """Return how many spans a run has by level and kind."""
    return Counter((each.level, each.kind) for each in spans_of(path, run))


def held_within(path: Path, run: str) -> float:
    """Return the share of kernels that ran while the layer that launched them lasted.

    A launch is its innermost layer's. 0 without any.
    """
    spans = list(spans_of(path, run))
    layers = [each for each in spans if each.level == Level.FRAMEWORK]
    layers.sort(key=lambda each: each.duration_ns)
    launches = {each.correlation: each for each in spans if each.kind == SpanKind.LAUNCH}
    held = []
    for kernel in spans:
        call = launches.get(kernel.correlation) if kernel.kind == SpanKind.KERNEL else None
        if call is not None:
            layer = next((one for one in layers if _holds(one, call)), None)
            held.append(layer is not None and kernel.end_ns <= layer.end_ns)
    return sum(held) / len(held) if held else 0.0


def copied_within(path: Path, run: str) -> Counter[str]:
    """Return the device's time in copies that began while a module's weights were moved, by it."""
    spans = list(spans_of(path, run))
    prefix = weights_prefix(PLACE)
    moves = [each for each in spans if each.name.startswith(prefix) and each.kind == SpanKind.HOST]
    launches = {each.correlation: each for each in spans if each.kind == SpanKind.LAUNCH}
    found = Counter[str]()
    for copy in (each for each in spans if each.kind == SpanKind.COPY):
        call = launches.get(copy.correlation, copy)
        for move in moves:
            if _holds(move, call):
                found[move.name.removeprefix(prefix)] += copy.duration_ns
    return found


def _holds(outer: Told, inner: Told) -> bool:
    return outer.start_ns <= inner.start_ns <= outer.end_ns
