"""The settings that bound the system: counts, sizes and times."""

from dataclasses import dataclass

from mlscope.settings.fields import setting
from mlscope.settings.values import bytes_of, bytes_or_none, bytes_up_to, integer, seconds_of

MIB, GIB = 1 << 20, 1 << 30
_BATCH_DEADLINE_S = 60.0
TABLES_WAIT_S = _BATCH_DEADLINE_S + 30.0
"""For how long people wait for the tables of what they cancelled.

An agent may be silent about a run that was cut off. The collector waits for it until the batch
deadline, and the analyzer needs a moment after that.
"""


@dataclass(frozen=True, slots=True, repr=False)
class Limits:
    """How many, how large and how long; the fields are as in `Settings`, which has them too."""

    max_pending_requests: int = setting(
        "MAX_PENDING_REQUESTS",
        integer(1, 1_000_000),
        1000,
        "requests that may wait; further ones are refused as `busy`",
    )
    max_request_bytes: int = setting(
        "MAX_REQUEST_BYTES",
        bytes_up_to(8 * MIB),
        4 * MIB,
        "size limit of a request; the NATS server accepts messages up to 8 MiB",
    )
    max_person_request_bytes: int = setting(
        "MAX_PERSON_REQUEST_BYTES",
        bytes_of,
        256 * MIB,
        "size limit of the requests of one person within a day, as the log keeps them for ever; "
        "owners have none",
    )
    max_upload_bytes: int = setting(
        "MAX_UPLOAD_BYTES",
        bytes_of,
        256 * MIB,
        "size limit of a file sent to a gateway for a model or dataset of a request",
    )
    max_open_evaluations: int = setting(
        "MAX_OPEN_EVALUATIONS",
        integer(1, 1_000_000),
        10_000,
        "evaluations that may be open at a time, half of them of one person; further ones are "
        "refused as `busy`",
    )
    max_listed_evaluations: int = setting(
        "MAX_LISTED_EVALUATIONS",
        integer(1, 1_000_000),
        10_000,
        "number of ended evaluations that lists show",
    )
    max_live_clients: int = setting(
        "MAX_LIVE_CLIENTS",
        integer(1, 100_000),
        256,
        "number of event streams that a gateway may have open",
    )
    ring_bytes: int = setting(
        "RING_BYTES", bytes_of, 16 * MIB, "size of the memory shared by a worker and its agent"
    )
    spool_max_bytes: int = setting(
        "SPOOL_MAX_BYTES",
        bytes_of,
        GIB,
        "size limit of the batches on an agent's disk; further ones are dropped and counted",
    )
    live_interval_s: float = setting(
        "LIVE_INTERVAL_S",
        seconds_of,
        1.0,
        "interval at which an agent publishes the rows of a run that is being measured; shorter "
        "intervals may raise latencies",
    )
    worker_memory_bytes: int = setting(
        "WORKER_MEMORY_BYTES",
        bytes_or_none,
        0,
        "memory limit of an agent's worker, checked 20 times per second; 0: no limit",
    )
    disk_reserve_bytes: int = setting(
        "DISK_RESERVE_BYTES",
        bytes_or_none,
        GIB,
        "free space on the disk of the data folder below which an agent ends its workers; for each "
        "worker at most an eighth of what was free when it started; 0: none",
    )
    worker_processes: int = setting(
        "WORKER_PROCESSES",
        integer(0, 1_000_000),
        4096,
        "limit of the processes and threads of an agent's worker, checked 20 times per second; "
        "0: no limit",
    )
    ahead_bytes: int | None = setting(
        "AHEAD_BYTES",
        bytes_or_none,
        None,
        "memory limit of the batches that a worker prepares ahead of its runs; runs that need more "
        "are streamed; 0: all runs are; default: a quarter of the free memory, at most 4 GiB",
    )
    traces_max_bytes: int = setting(
        "TRACES_MAX_BYTES", bytes_of, 4 * GIB, "size limit of the stream TRACES"
    )
    queries_max_bytes: int = setting(
        "QUERIES_MAX_BYTES", bytes_of, 2 * GIB, "size limit of the stream QUERIES"
    )
    payloads_max_bytes: int = setting(
        "PAYLOADS_MAX_BYTES",
        bytes_of,
        4 * GIB,
        "size limit of each object store for messages above 512 KiB",
    )
    cache_max_bytes: int = setting(
        "CACHE_MAX_BYTES",
        bytes_of,
        32 * GIB,
        "size limit of the downloaded assets; the least recently used are evicted",
    )
    fetch_timeout_s: float = setting(
        "FETCH_TIMEOUT_S", seconds_of, 3600.0, "time limit of one download, retries included"
    )
    artifacts_max_bytes: int = setting(
        "ARTIFACTS_MAX_BYTES",
        bytes_of,
        8 * GIB,
        "size limit of the object store of `mlscope artifacts`",
    )
    uploads_max_bytes: int = setting(
        "UPLOADS_MAX_BYTES",
        bytes_of,
        GIB,
        "size limit of the object store for requesters' uploads, which expire after a day",
    )
    lease_ttl_s: float = setting(
        "LEASE_TTL_S", seconds_of, 15.0, "time after which an agent's lease expires"
    )
    heartbeat_s: float = setting(
        "HEARTBEAT_S", seconds_of, 3.0, "interval at which an agent renews its lease"
    )
    forget_agents_after_s: float = setting(
        "FORGET_AGENTS_AFTER_S",
        seconds_of,
        86_400.0,
        "time for which agents that left or were lost stay in the catalog",
    )
    max_gone_agents: int = setting(
        "MAX_GONE_AGENTS",
        integer(1, 1_000_000),
        256,
        "agents in the catalog that left or were lost; the oldest are removed first",
    )
    run_silence_s: float = setting(
        "RUN_SILENCE_S", seconds_of, 30.0, "time without a message from its agent that ends a run"
    )
    run_attempts: int = setting(
        "RUN_ATTEMPTS",
        integer(1, 100),
        5,
        "number of attempts of a run whose agent or load issuer is lost",
    )
    agent_grace_s: float = setting(
        "AGENT_GRACE_S",
        seconds_of,
        30.0,
        "minimum time that an accepted evaluation waits for an agent",
    )
    health_wait_s: float = setting(
        "HEALTH_WAIT_S",
        seconds_of,
        30.0,
        "time without an answer over the bus after which the supervisor restarts a service",
    )
    analysis_wait_s: float = setting(
        "ANALYSIS_WAIT_S",
        seconds_of,
        1800.0,
        "time after which an evaluation fails if the analyzer does not respond; its tables may "
        "take half of that to compute",
    )
    analysis_max_spans: int = setting(
        "ANALYSIS_MAX_SPANS",
        integer(1, 1_000_000_000),
        4_000_000,
        "spans of an evaluation that are analyzed, at about 600 bytes of memory each; the tables "
        "say how many were left out",
    )
    default_budget_s: int = setting(
        "DEFAULT_BUDGET_S",
        integer(0, 86_400),
        10,
        "time limit for measuring a load of a request without `blocks` until its result is known "
        "to 5%; 0: measure one block",
    )
    batch_deadline_s: float = setting(
        "BATCH_DEADLINE_S",
        seconds_of,
        _BATCH_DEADLINE_S,
        "time to wait for missing batches before a run counts as incomplete",
    )
    purge_after_s: float = setting(
        "PURGE_AFTER_S",
        seconds_of,
        60.0,
        "time for which the messages of a recorded run stay in their streams at least",
    )
    keep_unsaved_bytes: int = setting(
        "KEEP_UNSAVED_BYTES",
        bytes_or_none,
        512 * MIB,
        "size up to which spans, queries and outputs stay in their streams until a backup has "
        "them; 0: they leave after `MLSCOPE_PURGE_AFTER_S`",
    )
