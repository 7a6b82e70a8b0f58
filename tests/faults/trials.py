"""What a trial does and what must come of it, derived from its seed alone (pure)."""

import random
from dataclasses import dataclass
from typing import Any

VICTIMS = (
    "registry",
    "scheduler",
    "agent",
    "worker",
    "collector",
    "analyzer",
    "gateway",
    "nats",
    "postgres",
)

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
class Moment:
    """A point of a story: a `state` is reached, or in it `answered` queries are heard."""

    state: str
    answered: int = 0


ANY_MOMENT = (
    Moment("requested"),
    Moment("running"),
    Moment("running", 1),
    Moment("running", 25),
    Moment("running", 50),
)
#: a worker lives while a run is under way; the rest may die late as well
MOMENTS_OF = {
    "worker": (Moment("running", 1), Moment("running", 25), Moment("running", 50)),
    "collector": (*ANY_MOMENT, Moment("measured")),
    "analyzer": (*ANY_MOMENT, Moment("measured")),
    "postgres": (*ANY_MOMENT, Moment("measured")),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One seeded trial: a load of some seconds, a victim, and at which moment it dies."""

    seed: int
    victim: str
    scenario: str
    trace_level: str
    rate_hz: float
    queries: int
    batch_size: int
    kill_at: Moment

    @property
    def request(self) -> dict[str, Any]:
        """The body of the `evaluate` command."""
        # All spans are in queries.
        parameters: dict[str, Any] = {"samples": "streamed"}
        parameters |= {"queries": self.queries, "rate_hz": self.rate_hz}
        if self.scenario == "poisson":
            parameters["seed"] = self.seed + 1
        return {
            "model": "tiny-cnn",
            "scenarios": [{"name": self.scenario, "parameters": parameters}],
            "trace_level": self.trace_level,
            "batch_sizes": [self.batch_size],
            "wait_s": 60.0,
            "key": f"trial-{self.seed}",
        }

    @property
    def expected_rows(self) -> dict[str, tuple[int, int]]:
        """Queries and spans of every run of the evaluation, by the level it ran at."""
        return {
            level: (self.queries, self.queries * SPANS_A_QUERY[level])
            for level in LEVELS_RUN[self.trace_level]
        }


def trial(seed: int) -> Trial:
    """Return the trial of a seed. Victims come round robin, in an order of the seed's round."""
    round_, place = divmod(seed, len(VICTIMS))
    victims = random.Random(f"victims-{round_}").sample(VICTIMS, len(VICTIMS))
    dice = random.Random(f"trial-{seed}")
    return Trial(
        seed=seed,
        victim=victims[place],
        scenario=dice.choice(("poisson", "fixed_rate")),
        trace_level=dice.choice(("model", "model", "framework")),
        rate_hz=dice.choice((40.0, 80.0)),
        queries=dice.choice((60, 100, 140)),
        batch_size=dice.choice((1, 3)),
        kill_at=dice.choice(MOMENTS_OF.get(victims[place], ANY_MOMENT)),
    )
