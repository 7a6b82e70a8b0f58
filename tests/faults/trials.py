"""What a trial does and what must come of it, derived from its seed alone (pure)."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SERVICES = ("registry", "scheduler", "collector", "analyzer", "gateway", "agent")
SERVERS = {"one": ("nats", "postgres"), "three": ("nats-0", "nats-1", "nats-2", "postgres")}
DISKS = ("nats", "postgres")
BROKERS = SERVERS["three"][:3]
HOUR_NS = 3600 * 1_000_000_000
STEPS_NS = (300 * 1_000_000_000, HOUR_NS, 72 * HOUR_NS)

STATES = (
    "requested",
    "postponed",
    "planned",
    "running",
    "measured",
    "analyzed",
    "failed",
    "cancelled",
)
"""An evaluation's states, in the order they come."""

#: spans of one query of tiny-cnn (raw tensors, no steps), by level: root and predict; then its
#: layers: ONNX Runtime's fusions make eight of nine nodes
SPANS_A_QUERY = {"model": 2, "framework": 10}
#: the requested level runs the levels above it on their own as well
LEVELS_RUN = {"model": ("model",), "framework": ("model", "framework")}


@dataclass(frozen=True, slots=True)
class Load:
    """What is evaluated; few of them, as each has an undisturbed evaluation to compare with."""

    scenario: str
    trace_level: str
    rate_hz: float
    queries: int
    batch_size: int

    @property
    def request(self) -> dict[str, Any]:
        """The body of the `evaluate` command."""
        # All spans are in queries.
        parameters: dict[str, Any] = {"samples": "streamed"}
        parameters |= {"queries": self.queries, "rate_hz": self.rate_hz}
        if self.scenario == "poisson":
            parameters["seed"] = 1
        return {
            "model": "tiny-cnn",
            "scenarios": [{"name": self.scenario, "parameters": parameters}],
            "trace_level": self.trace_level,
            "batch_sizes": [self.batch_size],
            "wait_s": 120.0,
        }

    @property
    def expected_rows(self) -> dict[str, tuple[int, int]]:
        """Queries and spans of every run of the evaluation, by the level it ran at."""
        return {
            level: (self.queries, self.queries * SPANS_A_QUERY[level])
            for level in LEVELS_RUN[self.trace_level]
        }


BRIEF = Load("poisson", "model", 60.0, 75, 1)
LOADS = (
    Load("poisson", "model", 40.0, 100, 1),
    Load("poisson", "framework", 80.0, 140, 3),
    Load("fixed_rate", "model", 80.0, 140, 3),
    Load("fixed_rate", "framework", 40.0, 60, 1),
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of a story: a `state` is reached, or in it `answered` queries are heard."""

    state: str
    answered: int = 0


UNDER_WAY = (Moment("running", 1), Moment("running", 25), Moment("running", 50))
ANY_MOMENT = (Moment("requested"), Moment("running"), *UNDER_WAY)
LATE_TOO = (*ANY_MOMENT, Moment("measured"))
#: a worker lives while a run is under way; what stores and analyses may die late as well
MOMENTS_OF = {
    "worker": UNDER_WAY,
    "collector": LATE_TOO,
    "analyzer": LATE_TOO,
    "postgres": LATE_TOO,
}


@dataclass(frozen=True, slots=True)
class Blow:
    """One fault: what is done to whom."""

    act: str
    """kill, stop, clock, full, read-only, cut, cut from peers, kill leader or restore."""
    victim: str
    step_ns: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """One seeded trial: a load of some seconds, and what happens at which moment."""

    seed: int
    kind: str
    world: str
    blows: tuple[Blow, ...]
    load: Load
    moment: Moment
    hold_s: float

    @property
    def needs_hosts(self) -> bool:
        """Whether it cuts a wire between hosts."""
        return self.kind in ("cut the agent", "cut a broker")

    @property
    def needs_disks(self) -> bool:
        """Whether it fills or spoils a disk."""
        return self.kind in ("full disk", "read-only disk")

    def __str__(self) -> str:
        """Say in a line what happens, where and when."""
        acts = " and ".join(
            f"{blow.act} {blow.victim}" + (f" {blow.step_ns / 1e9:+.0f} s" if blow.step_ns else "")
            for blow in self.blows
        )
        when = f"{self.moment.state} {self.moment.answered or ''}".strip()
        return f"{self.seed} ({self.kind}; {self.world}): {acts}, {self.hold_s:g} s, at {when}"


def _kill_a_service(dice: random.Random) -> tuple[str, tuple[Blow, ...]]:
    victim = dice.choice((*SERVICES, "worker"))
    return dice.choice(("one", "one", "three")), (Blow("kill", victim),)


def _kill_a_server(dice: random.Random) -> tuple[str, tuple[Blow, ...]]:
    world = dice.choice(("one", "one", "three"))
    return world, (Blow("kill", dice.choice(SERVERS[world])),)


def _stop(dice: random.Random) -> tuple[str, tuple[Blow, ...]]:
    world = dice.choice(("one", "three"))
    victim = dice.choice((*SERVICES, "worker", *SERVERS[world]))
    return world, (Blow("stop", victim),)


def _pair(dice: random.Random) -> tuple[str, tuple[Blow, ...]]:
    world = dice.choice(("one", "one", "three"))
    # The worker dies with its agent: the two are no pair.
    both = dice.sample((*SERVICES, *SERVERS[world]), 2)
    acts = dice.choice((("kill", "kill"), ("kill", "stop")))
    return world, tuple(Blow(act, name) for act, name in zip(acts, both, strict=True))


def _clock(dice: random.Random, sign: int) -> tuple[str, tuple[Blow, ...]]:
    step_ns = sign * dice.choice(STEPS_NS)
    return dice.choice(("one", "three")), (Blow("clock", "cluster", step_ns),)


def _disk(act: str, dice: random.Random) -> tuple[str, tuple[Blow, ...]]:
    return "one", (Blow(act, dice.choice(DISKS)),)


def _cut_broker(dice: random.Random) -> tuple[str, tuple[Blow, ...]]:
    act = dice.choice(("cut", "cut from peers"))
    return "three", (Blow(act, dice.choice(BROKERS)),)


KINDS: dict[str, Callable[[random.Random], tuple[str, tuple[Blow, ...]]]] = {
    "kill a service": _kill_a_service,
    "kill a server": _kill_a_server,
    "stop": _stop,
    "pair": _pair,
    "clock forward": lambda dice: _clock(dice, 1),
    "clock back": lambda dice: _clock(dice, -1),
    "full disk": lambda dice: _disk("full", dice),
    "read-only disk": lambda dice: _disk("read-only", dice),
    "cut the agent": lambda _: ("one", (Blow("cut", "agent"),)),
    "cut a broker": _cut_broker,
    "kill the leader": lambda dice: (
        "three",
        (Blow("kill leader", dice.choice(("EVALUATIONS", "TRACES", "QUERIES"))),),
    ),
    "restore the database": lambda _: ("one", (Blow("restore", "postgres"),)),
}
"""How each kind of trial is thrown, by name."""

#: seconds that a fault lasts, where it does not end by itself
HOLDS_S = {
    "stop": (20.0,),
    "full disk": (2.0, 5.0),
    "read-only disk": (2.0, 5.0),
    "cut the agent": (1.0, 5.0, 15.0),
    "cut a broker": (5.0, 15.0),
    "pair": (5.0, 20.0),
    # Until some rows, all rows or the end of the run are stored that the backup has not.
    "restore the database": (0.5, 1.5, 4.0),
}
BRIEF_HOLD_S = 2.0


def trial(seed: int, *, is_brief: bool = False) -> Trial:
    """Return the trial of a seed. Kinds come round robin, in an order of the seed's round.

    A brief one has the shortest load and lasts as briefly as its kind allows.
    """
    round_, place = divmod(seed, len(KINDS))
    kind = random.Random(f"kinds-{round_}").sample(sorted(KINDS), len(KINDS))[place]
    dice = random.Random(f"trial-{seed}")
    world, blows = KINDS[kind](dice)
    moments = [set(MOMENTS_OF.get(blow.victim, ANY_MOMENT)) for blow in blows]
    if kind not in ("kill a service", "kill a server", "stop", "pair"):
        moments = [set(UNDER_WAY)]
    common = set.intersection(*moments)
    hold_s = dice.choice(HOLDS_S.get(kind, (0.0,)))
    load = dice.choice(LOADS)
    moment = dice.choice(sorted(common, key=lambda moment: (moment.state, moment.answered)))
    if is_brief and moment in UNDER_WAY:
        moment = UNDER_WAY[0]
    return Trial(
        seed=seed,
        kind=kind,
        world=world,
        blows=blows,
        load=BRIEF if is_brief else load,
        moment=moment,
        hold_s=min(hold_s, BRIEF_HOLD_S) if is_brief else hold_s,
    )
