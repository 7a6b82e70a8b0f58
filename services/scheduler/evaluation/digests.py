"""Digests of evaluations' states, and sums of digests: the same on every machine. Pure."""

import hashlib
import json

from mlscope.evaluation.status import status_of
from mlscope.manifests.digests import digest_of
from services.scheduler.evaluation.state import EvaluationState

MODULUS = 1 << 256


def combined(total: int, plus: str) -> int:
    """Return a sum of digests and one more; order never matters.

    Addition modulo 2^256: unlike XOR, the same digest twice does not cancel out.
    """
    return (total + int(plus, 16)) % MODULUS


def digest_of_state(state: EvaluationState) -> str:
    """Return the sha256 of what the facts say, in hex; their places in the log are left out."""
    content = [
        digest_of(status_of(state)),
        [state.until_ns, state.planned_ns, state.analyzed, state.analysis_failed],
        [
            [
                run.run,
                run.incarnation,
                run.started_ns,
                run.is_ready,
                run.issuer,
                run.attempts_lost,
                run.died,
            ]
            for run in state.runs.values()
        ],
        "" if state.plan is None else digest_of(state.plan),
    ]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
