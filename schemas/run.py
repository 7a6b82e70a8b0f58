"""Facts of agents and the collector on a run."""

from pydantic import Field

from schemas.level import Level, LevelField
from schemas.message import Fact, Message
from schemas.values.identity import Token
from schemas.values.json_values import JsonObject

ENDED_EARLY = "ended at"
"""First words of the caveat on a run whose stop rule was not met when its blocks ended."""
QUERIES_GUESSED = "its queries are guessed: "
"""First words of the caveat on latency and rate of an imported run with guessed queries."""


class Tally(Message):
    """What an attempt published: batches by kind (`trace`, `query`, `output`) and their rows."""

    trace_batches: int = 0
    query_batches: int = 0
    output_batches: int = 0
    spans: int = 0
    queries: int = 0
    outputs: int = 0
    failed_queries: int = 0
    #: samples without an answer in partly answered queries
    failed_samples: int = 0
    #: batches lost because ring and spool were full; the run is marked
    dropped_batches: int = 0
    #: records that a collector of traces lost; figures of its levels are then invalid
    dropped_records: int = 0


class ClockOrigin(Message):
    """An attempt's clock: times of rows are offsets in ns from `monotonic_ns` of that boot.

    The epoch is read at start and end; a difference between them shows steps of the wall clock.
    """

    monotonic_ns: int
    epoch_start_ns: int
    epoch_end_ns: int = 0
    monotonic_end_ns: int = 0
    boot_id: str = ""


class BlockStatistics(Message):
    """One block of a run: number of queries and their median service time."""

    block: int
    queries: int
    median_ns: int


class Ceiling(Message):
    """A ceiling of a device, in units a second; None unknown."""

    #: the best of all tries in all measurements
    measured: float | None = None
    datasheet: float | None = None
    method: str = ""
    #: spread of tries and measurements, a share of `measured`: the true one may be so much above
    uncertainty: float | None = None
    #: how often it was measured, each time in another start of an agent
    measurements: int = 0
    #: when the best was measured, in epoch ns
    measured_ns: int | None = None
    #: conditions of that measurement: share of others, clock, temperature, …
    conditions: JsonObject = Field(default_factory=dict)
    #: what slowed the measurement, so that the true ceiling is higher; '' nothing
    disturbance: str = ""


class Conditions(Message):
    """Conditions of a run: versions, effective settings, seeds, checksums, cost of opening."""

    framework: str = ""
    framework_version: str = ""
    device: str = "cpu"
    provider: str = ""
    #: name of the processor; on a GPU, names of the machine's GPUs
    processor: str = ""
    accelerator: str = ""
    precision: str = ""
    threads: int = 0
    options: JsonObject = Field(default_factory=dict)
    load_ns: int = 0
    first_run_ns: int = 0
    #: resident memory of the worker that opening and the first query added, and device memory of
    #: the framework after them; 0 unknown
    memory_bytes: int = 0
    device_memory_bytes: int = 0
    #: the model's size from its manifest, or four bytes a parameter; None unknown
    model_size_bytes: int | None = None
    warmup_queries: int = 0
    #: threads that prepared samples where no processes did; the predicting thread helped when none
    #: was ready
    prepare_threads: int = 1
    #: when its samples were prepared: ahead of the clock, or streamed; empty for an opening, for
    #: an imported recording and before release 0.2
    samples: str = ""
    #: numbers of the cores that the thread which calls the model was kept on, with commas between,
    #: in every run of its session; empty where it may move
    predict_cores: str = ""
    #: predict calls under way at a time: with 2, copies of one overlap the computing of the other
    calls_in_flight: int = 1
    #: of the memory that a GPU copies inputs from: page-locked, pageable, or unknown where the
    #: predictor does not say; empty on a CPU
    host_memory: str = ""
    #: of the memory that a GPU copies outputs into, as above
    output_memory: str = ""
    #: whether the copies of a call on a GPU are timed separately from its computing: apart or
    #: together; empty on a CPU
    copies: str = ""
    #: libraries that decoded and resized its pictures, with versions; empty without pictures
    prepared_by: str = ""
    #: where a call on a GPU finds its inputs: host, or device, where they were before the clock
    inputs: str = ""
    #: batches prepared ahead for it, and the memory of their tensors
    prepared_batches: int = 0
    prepared_bytes: int = 0
    #: processes that prepared streamed samples; 0: threads of the worker did
    prepare_processes: int = 0
    #: how long these prepared in its blocks, summed, with reading and filling inputs; 0 unknown
    prepare_busy_ns: int = 0
    rss_bytes: int = 0
    checksums: dict[str, str] = Field(default_factory=dict)
    seed: int | None = None
    #: id of the opening: runs with the same one shared one loaded model
    opened: str = ""
    #: answers to repeated samples that were compared with the first answer
    repeats_compared: int = 0
    #: which rule ended its blocks: least, interval, most or budget, or overload where a remote
    #: load's answers did not keep up; empty for none
    blocks_ended: str = ""
    #: the cluster's clock minus the agent's when the run's session began, which is wrong by at most
    #: the bound; None not measured
    clock_offset_ns: int | None = None
    clock_bound_ns: int | None = None
    mlscope_version: str = ""
    python_version: str = ""
    #: image of the container that was started for its session, the engine's id of that image, and
    #: the engine with its version; '' for none
    container: str = ""
    container_digest: str = ""
    container_engine: str = ""
    #: ceilings of its device: compute (FLOP/s) and memory (bytes/s); None not measured
    peak_flops: Ceiling | None = None
    memory_bandwidth: Ceiling | None = None
    #: load average, CPU governor and clock, involuntary context switches during the run, …
    noise: JsonObject = Field(default_factory=dict)


class RunReady(Fact):
    """A remote run's predictor is open and warmed up, ready for load. Published by the agent."""

    entity = "run"
    happened = "ready"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token


class RunCompleted(Fact):
    """The load is done; `tally` announces the batches. Published by the agent."""

    entity = "run"
    happened = "completed"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    tally: Tally
    origin: ClockOrigin
    conditions: Conditions
    #: the level that was traced, and why it is not the requested one
    level: LevelField = Level.NONE
    level_note: str = ""
    blocks: tuple[BlockStatistics, ...] = ()
    #: limits on the results: late queries, dropped batches, failed samples
    caveats: tuple[str, ...] = ()


class RunFailed(Fact):
    """The run failed; `tally` announces what was published before. Published by the agent.

    `error` names the kind: open, assets, dataset, batch_size, memory, processes, disk, predict,
    inline, worker_died, timeout, stopped.
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
    """Every announced batch is stored. Published by the collector."""

    entity = "run"
    happened = "recorded"
    evaluation: Token
    run: Token
    attempt: int
    spans: int
    queries: int
    outputs: int
    #: all batches stored by then, also those that were not announced; facts of 0.1 lack it
    batches: int | None = None


class RunIncomplete(Fact):
    """Batches are missing after the deadline. Published by the collector.

    Also published for an interrupted attempt whose agent never announced batches
    (`announced_batches` 0); it then counts what is stored. If the agent reports late, another
    one follows.
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
    #: for an interrupted attempt, the stored failed queries; for others see its tally
    failed_queries: int = 0
    #: all batches stored by then, also those that were not announced; facts of 0.1 lack it
    batches: int | None = None
