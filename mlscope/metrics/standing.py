"""What services answered to `$SRV.STATS`, as the values of metrics. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeGuard

from mlscope.bus.records import Backlog
from mlscope.bus.streams import durable_named
from mlscope.metrics.declared import BACKLOGS, METRICS, SERVICE_UP, SERVICES, Metric

MOST_LABEL_CHARACTERS = 64
_MOST_VALUES_OF_A_LABEL = 64
_LEAST_TOO_LARGE = 2**63

Samples = dict[tuple[str, ...], float]
"""The values of one metric, by those of its labels."""


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """One instance's figures: its service, its version, and a tree of numbers."""

    service: str
    version: str
    host: str
    agent: str
    tree: Mapping[str, Any]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "ServiceFigures":
        """Return the figures in an `answer` to `$SRV.STATS`.

        Whoever answers may have put anything there. Raises KeyError, IndexError, ValueError,
        TypeError, AttributeError, RecursionError.
        """
        endpoints = answer["endpoints"]
        data = dict(endpoints[0].get("data", {}))
        counted = {
            "received": "num_requests",
            "refused": "num_errors",
            "answered_ns": "processing_time",
            "open": "num_open",
        }
        named = [endpoint for endpoint in endpoints if endpoint["subject"]]
        requests = {
            figure: {endpoint["name"]: endpoint.get(place, 0) for endpoint in named}
            for figure, place in counted.items()
        }
        host, agent = data.get("process", {}).get("host", ""), data.get("agent", "")
        version, host, agent = (_label(value) for value in (answer["version"], host, agent))
        return cls(answer["name"], version, host, agent, {**data, "requests": requests})

    def labels(self) -> tuple[str, str, str]:
        """Return service, host and agent, the labels of every figure."""
        return (self.service, self.host, self.agent)

    def at(self, source: str) -> Any:
        """Return what is at a place with dots; None if nothing is."""
        place: Any = self.tree
        for name in source.split("."):
            if not isinstance(place, Mapping):
                return None
            place = place.get(name)
        return place

    def number(self, source: str) -> float:
        """Return the number at a place; 0 if there is none."""
        value = self.at(source)
        return float(value) if _is_number(value) else 0.0

    def samples(self, metric: Metric) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the values of a metric with those of its labels; nothing if it has none."""
        if metric.services and self.service not in metric.services:
            return
        value, own = self.at(metric.source), self.labels()
        labelled: list[tuple[tuple[str, ...], Any]] = [(own, value)]
        if metric.label:
            by_name = value.items() if isinstance(value, Mapping) else ()
            first = islice(by_name, _MOST_VALUES_OF_A_LABEL)
            labelled = [((*own, _label(name)), figure) for name, figure in first]
        for labels, figure in labelled:
            if _is_number(figure):
                yield labels, figure * metric.scale


def with_unique_hosts(figures: Iterable[ServiceFigures]) -> list[ServiceFigures]:
    """Return `figures` sorted, with a number after the host of a second with the same labels.

    An instance claims its host and agent itself: without the number one replaces another, and the
    number alone is not enough where a host is shortened for it or claims one.
    """
    repeats: Counter[tuple[str, str, str]] = Counter()
    used: set[tuple[str, str, str]] = set()
    apart = []
    for instance in sorted(figures, key=ServiceFigures.labels):
        labels, host = instance.labels(), instance.host
        while (instance.service, host, instance.agent) in used:
            repeats[labels] += 1
            ending = f" ({repeats[labels] + 1})"
            host = instance.host[: MOST_LABEL_CHARACTERS - len(ending)] + ending
        used.add((instance.service, host, instance.agent))
        apart.append(replace(instance, host=host))
    return apart


def _is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a value can be shown and counted: finite, and no larger than 64 bits hold."""
    if not isinstance(value, int | float):
        return False
    return abs(value) < _LEAST_TOO_LARGE and math.isfinite(value)


def _label(value: object) -> str:
    """Return a value as a label: short, and of characters that UTF-8 has."""
    return str(value)[:MOST_LABEL_CHARACTERS].encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Standing:
    """How a cluster stands: the figures of each instance, and what durables have still to do.

    `backlogs` is None where nobody asked: then these are the figures of one service alone.
    """

    figures: Sequence[ServiceFigures] = ()
    backlogs: Mapping[str, Backlog] | None = field(default=None)

    def samples(self) -> list[tuple[Metric, Samples]]:
        """Return the values of every metric."""
        values: list[tuple[Metric, Samples]] = [
            (metric, {key: value for own in self.figures for key, value in own.samples(metric)})
            for metric in METRICS
        ]
        if self.backlogs is None:
            return values
        counts = Counter(instance.service for instance in self.figures)
        values.append((SERVICE_UP, {(name,): float(counts[name]) for name in SERVICES}))
        for metric in BACKLOGS:
            samples: Samples = {
                (durable, durable_named(durable).stream): float(getattr(backlog, metric.source))
                for durable, backlog in self.backlogs.items()
            }
            values.append((metric, samples))
        return values
