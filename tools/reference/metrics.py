"""The page of metrics: each one's name, kind, labels, services and meaning."""

from mlscope.metrics.declared import BACKLOGS, METRICS, SERVICE_UP, labels_of
from tools.reference.markdown import code, table

_HEAD = """# Metrics

`/metrics` of the gateway has all of these. A service's own port (`MLSCOPE_METRICS_PORT`) has only
the metrics of that service, without the last four, which the gateway reads from the bus and the
log. The label `agent` is empty for services other than agents.

"""


def metrics_page() -> str:
    """Return the page."""
    rows = [
        (
            code(metric.name),
            metric.kind,
            ", ".join(map(code, labels_of(metric))),
            ", ".join(metric.services) or "every service",
            metric.help,
        )
        for metric in METRICS
    ]
    rows += [
        (code(metric.name), metric.kind, ", ".join(map(code, labels_of(metric))), "—", metric.help)
        for metric in (SERVICE_UP, *BACKLOGS)
    ]
    return _HEAD + table(("Metric", "Kind", "Labels", "Of", "Meaning"), rows) + "\n"
