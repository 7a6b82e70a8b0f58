"""Every metric that `/metrics` has: its name, its meaning, and where its value comes from. Pure.

A service's figures are what it answers to `$SRV.STATS`; each metric names its place in them.
Names follow https://prometheus.io/docs/practices/naming/.
"""

from dataclasses import dataclass
from typing import Literal

SERVICES = ("registry", "scheduler", "collector", "analyzer", "gateway", "agent")
"""The services that a cluster has."""

OF_A_SERVICE = ("service", "host", "agent")
"""The labels of a service's own figures; `agent` is empty for those that are no agent."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `kind` and `help` as Prometheus has them.

    `source` is the place of its value in a service's figures, with dots; the value is multiplied
    by `scale`. With a `label` the value is a table, whose keys are the label's values. Only
    `services` have it; none are named where all have.
    """

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    source: str
    label: str = ""
    services: tuple[str, ...] = ()
    scale: float = 1.0

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels."""
        return (*OF_A_SERVICE, self.label) if self.label else OF_A_SERVICE


METRICS = (
    Metric(
        "mlscope_start_time_seconds",
        "gauge",
        "When the service's process started, in seconds since the epoch.",
        "process.started_s",
    ),
    Metric(
        "mlscope_restarts_total",
        "counter",
        "How often `mlscope up` restarted the service.",
        "process.restarts",
    ),
    Metric(
        "mlscope_process_cpu_seconds_total",
        "counter",
        "Processor time of the service's process, user and system.",
        "process.cpu_s",
    ),
    Metric(
        "mlscope_process_resident_memory_bytes",
        "gauge",
        "Resident memory of the service's process.",
        "process.memory_bytes",
    ),
    Metric(
        "mlscope_nats_reconnects_total",
        "counter",
        "How often the service reconnected to NATS.",
        "bus.reconnects",
    ),
    Metric(
        "mlscope_messages_sent_total",
        "counter",
        "Messages sent to NATS, including acknowledgements.",
        "bus.sent",
    ),
    Metric(
        "mlscope_messages_received_total",
        "counter",
        "Messages received from NATS.",
        "bus.received",
    ),
    Metric(
        "mlscope_facts_published_total",
        "counter",
        "Facts and batches that the log acknowledged.",
        "bus.published",
    ),
    Metric(
        "mlscope_facts_delivered_total",
        "counter",
        "Facts and batches that a durable delivered.",
        "bus.delivered",
    ),
    Metric(
        "mlscope_facts_redelivered_total",
        "counter",
        "Facts delivered more than once.",
        "bus.redelivered",
    ),
    Metric(
        "mlscope_dead_letters_total",
        "counter",
        "Messages that the service gave up on (dead letters).",
        "bus.buried",
    ),
    Metric(
        "mlscope_facts_unread_total",
        "counter",
        "Facts of the log that the service could not read: of a newer version, or damaged.",
        "bus.unread",
    ),
    Metric(
        "mlscope_requests_total",
        "counter",
        "Requests received, by endpoint.",
        "requests.received",
        "endpoint",
    ),
    Metric(
        "mlscope_request_errors_total",
        "counter",
        "Requests refused or failed, by endpoint.",
        "requests.refused",
        "endpoint",
    ),
    Metric(
        "mlscope_request_seconds_total",
        "counter",
        "Time spent answering requests, by endpoint.",
        "requests.answered_ns",
        "endpoint",
        scale=1e-9,
    ),
    Metric(
        "mlscope_requests_open",
        "gauge",
        "Requests that wait or are being answered, by endpoint.",
        "requests.open",
        "endpoint",
    ),
    Metric(
        "mlscope_rows_stored_total",
        "counter",
        "Rows stored in the database, by the durable that delivered them.",
        "rows_by_durable",
        "durable",
        ("collector",),
    ),
    Metric(
        "mlscope_runs_waiting",
        "gauge",
        "Ended runs whose batches are not all stored.",
        "waiting_runs",
        services=("collector",),
    ),
    Metric(
        "mlscope_evaluations_lost",
        "gauge",
        "Evaluations with rows that the log says are stored but the database lacks.",
        "lost_evaluations",
        services=("collector",),
    ),
    Metric(
        "mlscope_evaluations_unsaved",
        "gauge",
        "Evaluations with rows that no backup has.",
        "unsaved_evaluations",
        services=("collector",),
    ),
    Metric(
        "mlscope_evaluations_database_only",
        "gauge",
        "Evaluations with rows that no backup has, and that have left the log.",
        "database_only_evaluations",
        services=("collector",),
    ),
    Metric(
        "mlscope_batches_held_bytes",
        "gauge",
        "Size of the spans, queries and outputs in the log: not stored yet, or not saved yet.",
        "held_bytes",
        services=("collector",),
    ),
    Metric(
        "mlscope_evaluations_open",
        "gauge",
        "Evaluations that have not ended.",
        "open",
        services=("scheduler",),
    ),
    Metric(
        "mlscope_commands_open",
        "gauge",
        "Commands to agents that wait for their answer.",
        "commands",
        services=("scheduler",),
    ),
    Metric(
        "mlscope_analyses_total",
        "counter",
        "Evaluations whose tables were computed.",
        "analyzed",
        services=("analyzer",),
    ),
    Metric(
        "mlscope_analyses_failed_total",
        "counter",
        "Evaluations whose analysis failed for good.",
        "failed",
        services=("analyzer",),
    ),
    Metric(
        "mlscope_agents_live",
        "gauge",
        "Agents that hold their lease.",
        "agents",
        services=("registry",),
    ),
    Metric(
        "mlscope_viewers",
        "gauge",
        "Event streams that are open.",
        "viewers",
        services=("gateway",),
    ),
    Metric(
        "mlscope_lease_held",
        "gauge",
        "1 while the agent holds its lease.",
        "holds_lease",
        services=("agent",),
    ),
    Metric(
        "mlscope_workers",
        "gauge",
        "Open processes of models.",
        "workers",
        services=("agent",),
    ),
    Metric(
        "mlscope_spool_bytes",
        "gauge",
        "Size of the batches in ring and spool that are not sent yet.",
        "spool_bytes",
        services=("agent",),
    ),
    Metric(
        "mlscope_batches_on_their_way",
        "gauge",
        "Batches sent and not yet acknowledged.",
        "pending_batches",
        services=("agent",),
    ),
    Metric(
        "mlscope_rows_published_total",
        "counter",
        "Rows published in batches: spans, queries, outputs.",
        "rows_published",
        "kind",
        ("agent",),
    ),
    Metric(
        "mlscope_batches_dropped_total",
        "counter",
        "Batches dropped because the spool was full; the runs are marked.",
        "dropped_batches",
        services=("agent",),
    ),
    Metric(
        "mlscope_runs_ended_total",
        "counter",
        "Runs that ended, by outcome.",
        "runs_ended",
        "how",
        ("agent",),
    ),
)
"""The metrics of services."""

SERVICE_UP = Metric(
    "mlscope_service_up",
    "gauge",
    "How many instances of a service answer over the bus.",
    "up",
)
BACKLOGS = (
    Metric(
        "mlscope_durable_waiting",
        "gauge",
        "Facts that a durable has not delivered yet: how far behind its service is.",
        "waiting",
    ),
    Metric(
        "mlscope_durable_unsettled",
        "gauge",
        "Facts that were delivered and are not acknowledged.",
        "unsettled",
    ),
    Metric(
        "mlscope_durable_redelivered",
        "gauge",
        "Facts delivered more than once.",
        "redelivered",
    ),
)
"""What the gateway asks the log itself, beside the services' own figures."""


def labels_of(metric: Metric) -> tuple[str, ...]:
    """Return the names of a metric's labels, those of the cluster's own among them."""
    if metric is SERVICE_UP:
        return ("service",)
    return ("durable", "stream") if metric in BACKLOGS else metric.labels
