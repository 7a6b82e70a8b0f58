"""Metrics in Prometheus' text format, by its client library; and a port that answers with them."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mlscope.metrics.declared import labels_of
from mlscope.metrics.port_server import serve_registry
from mlscope.metrics.standing import Standing

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _StandingCollector(Collector):
    """Asks for the figures whenever they are collected, and counts nothing itself."""

    def __init__(self, ask: Callable[[], Standing]) -> None:
        self._ask = ask

    def describe(self) -> Iterable[Metric]:
        """Name nothing in advance: registering it asks nobody."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the values of every metric."""
        for metric, samples in self._ask().samples():
            families = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
            family = families[metric.kind](metric.name, metric.help, labels=labels_of(metric))
            for labels, value in samples.items():
                family.add_metric(labels, value)
            yield family


def exposition(standing: Standing) -> bytes:
    """Return the text that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(_StandingCollector(lambda: standing))
    return generate_latest(registry)


def open_port(host: str, port: int, ask: Callable[[], Standing]) -> Callable[[], None]:
    """Answer `/metrics` at `host` and `port` with what `ask` returns, from threads of its own.

    Returns what closes the port. Raises OSError when it is in use.
    """
    registry = CollectorRegistry()
    registry.register(_StandingCollector(ask))
    return serve_registry(host, port, registry)
