"""What agents and the collector say of a run."""

from typing import Any

from pydantic import Field

from schemas.identity import Token
from schemas.level import Level, LevelField
from schemas.message import Fact, Message

QUERIES_GUESSED = "its queries are guessed: "
"""How a caveat begins without which no latency and no rate of an imported run is to be read."""


class Tally(Message):
    """What an attempt published: batches by kind (`trace`, `query`, `output`) and rows in them."""

    trace_batches: int = 0
    query_batches: int = 0
    output_batches: int = 0
    spans: int = 0
    queries: int = 0
    outputs: int = 0
    failed_queries: int = 0
    #: samples without an answer in queries that were answered in part
    failed_samples: int = 0
    #: batches lost because ring and spool were full; above 0 the run is marked
    dropped_batches: int = 0
    #: records that a collector of traces lost; above 0 the figures of its levels are invalid
    dropped_records: int = 0


class ClockOrigin(Message):
    """An attempt's clock: `t_ns` of every row is an offset from `monotonic_ns` of that boot.

    The epoch is mapped at start and end; their difference shows steps of the wall clock.
    """

    monotonic_ns: int
    epoch_start_ns: int
    epoch_end_ns: int = 0
    monotonic_end_ns: int = 0
    boot_id: str = ""


class BlockStatistics(Message):
    """One block of a run: its queries and their median service time."""

    block: int
    queries: int
    median_ns: int


class Ceiling(Message):
    """The most of something that a device does a second; None where nobody knows."""

    measured: float | None = None
    datasheet: float | None = None
    method: str = ""


class Conditions(Message):
    """No result without these: versions, effective settings, seeds, checksums, costs of opening."""

    framework: str = ""
    framework_version: str = ""
    device: str = "cpu"
    provider: str = ""
    #: what computed it: the processor's name, and on a GPU the names of the machine's GPUs
    processor: str = ""
    accelerator: str = ""
    precision: str = ""
    threads: int = 0
    options: dict[str, Any] = Field(default_factory=dict)
    load_ns: int = 0
    first_run_ns: int = 0
    #: what opening and first run added to the worker's resident memory, and what the framework
    #: then held of a device's own memory; 0 where it does not say
    memory_bytes: int = 0
    device_memory_bytes: int = 0
    #: the model's size as its manifest states it, else four bytes a parameter; None unknown
    model_size_bytes: int | None = None
    warmup_queries: int = 0
    #: threads that prepared samples; where they had nothing ready the predicting one helped
    prepare_threads: int = 1
    rss_bytes: int = 0
    checksums: dict[str, str] = Field(default_factory=dict)
    seed: int | None = None
    #: which opening of the model it was: runs that share it had one build, loaded once
    opened: str = ""
    #: answers to samples that came again, compared with their first
    repeats_compared: int = 0
    #: what ended its blocks: least, interval, most or budget; empty where nothing did
    blocks_ended: str = ""
    mlscope_version: str = ""
    python_version: str = ""
    #: what its device computes (FLOP/s) and moves (bytes/s) at most; None where nobody asked
    peak_flops: Ceiling | None = None
    memory_bandwidth: Ceiling | None = None
    #: load average, CPU governor and clock, involuntary context switches during the run, …
    noise: dict[str, Any] = Field(default_factory=dict)


class RunReady(Fact):
    """A remote run's predictor is open and warm: the load may be issued. Said by the agent."""

    entity = "run"
    happened = "ready"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token


class RunCompleted(Fact):
    """The load is through; `tally` announces the batches. Said by the agent."""

    entity = "run"
    happened = "completed"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    tally: Tally
    origin: ClockOrigin
    conditions: Conditions
    #: the level that was really traced, and why it is not the asked one
    level: LevelField = Level.NONE
    level_note: str = ""
    blocks: tuple[BlockStatistics, ...] = ()
    #: notes a reader must see beside the numbers: late issue, drops, failed samples
    caveats: tuple[str, ...] = ()


class RunFailed(Fact):
    """The run ended badly; what was published before is announced all the same.

    `error` names the kind: open, assets, dataset, batch_size, memory, predict, inline,
    worker_died, timeout, stopped.
    """

    entity = "run"
    happened = "failed"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    error: str
    message: str
    tally: Tally = Tally()
    origin: ClockOrigin | None = None
    conditions: Conditions = Conditions()
    level: LevelField = Level.NONE


class RunRecorded(Fact):
    """Every announced batch is stored. Said by the collector."""

    entity = "run"
    happened = "recorded"
    evaluation: Token
    run: Token
    attempt: int
    spans: int
    queries: int
    outputs: int


class RunIncomplete(Fact):
    """Past the deadline batches are missing; the numbers say how many. Said by the collector.

    Also said of an interrupted attempt whose agent never announced any (`announced_batches` 0):
    then it tells what is stored of it. A late word of the agent's is followed by another.
    """

    entity = "run"
    happened = "incomplete"
    evaluation: Token
    run: Token
    attempt: int
    spans: int
    queries: int
    outputs: int
    announced_batches: int
    stored_batches: int
    #: of an interrupted attempt the stored queries that failed; of others its tally tells
    failed_queries: int = 0
