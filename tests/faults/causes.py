"""What the record may say of a fault: the causes and caveats that it can truly have (pure)."""

import re
from collections.abc import Iterable

from tests.faults.trials import Blow

ANY_MACHINE = (
    r"layer times are rounded down to whole microseconds, so their sums are slightly low",
    r"other processes used \d+% of the cores while its roof was measured: .*",
    r"queries were issued late: p99 [\d.]+ ms",
    r"block \d+: .*",
)
"""Caveats that need no fault: of the framework, and of a machine with other work."""

_SUPERSEDED = (r"attempt \d+ was ordered", r"stopped on request")
"""What an agent that is back says of the attempt that it is to give up."""
_AGENT_GONE = (r"agent only was (lost|restarted)", r"agent only left", *_SUPERSEDED)
_LOAD_GONE = (
    r"the issuer of its load was lost",
    r"its load could not be issued: .*",
    *_SUPERSEDED,
)
_WORKER_GONE = (r"worker was killed by SIGKILL \(out of memory\?\)",)
_UNANSWERED = (r"\d+ of \d+ queries (got no answer|failed.*)",)
_CLOCK = (r"the wall clock moved by -?[\d.]+ ms",)

#: whoever keeps leases is away, or who renews them: either looks like the other's death to it
_BUS_GONE = (*_AGENT_GONE, *_LOAD_GONE, *_UNANSWERED)

TRUE_OF = {
    "agent": (*_AGENT_GONE, *_WORKER_GONE, *_UNANSWERED),
    "worker": (*_WORKER_GONE, *_UNANSWERED),
    "scheduler": (*_LOAD_GONE, *_UNANSWERED),
    # An agent is lost by the registry's words, which may come late.
    "registry": (),
    "collector": (),
    "analyzer": (),
    "gateway": (),
    "postgres": (),
    "nats": _BUS_GONE,
    "cluster": _CLOCK,
}
"""What may be said once a process, a server or its disk is struck, by whom it strikes."""


def causes_of(blow: Blow) -> tuple[str, ...]:
    """Return the patterns of what a blow can truly cause."""
    if blow.act in ("kill leader", "cut from peers") or blow.victim.startswith("nats"):
        return TRUE_OF["nats"]
    if blow.act == "cut":
        return _BUS_GONE
    return TRUE_OF[blow.victim]


def false_causes(blows: Iterable[Blow], causes: Iterable[str]) -> list[str]:
    """Return what was said that none of the blows can have caused."""
    patterns = [*ANY_MACHINE, *(pattern for blow in blows for pattern in causes_of(blow))]
    return [
        cause
        for cause in causes
        if cause and not any(re.fullmatch(pattern, cause) for pattern in patterns)
    ]
