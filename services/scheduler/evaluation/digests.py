"""Digests of messages and states: the same content gives the same on every machine. Pure."""

import hashlib
import json

from mlscope.evaluation.status import status_of
from schemas.message import Message
from services.scheduler.evaluation.state import EvaluationState

MODULUS = 1 << 256


def digest_of(message: Message) -> str:
    """Return the sha256 of a message's canonical JSON (keys sorted, no spaces), in hex."""
    text = json.dumps(
        message.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


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
                run.lost,
                run.died,
            ]
            for run in state.runs.values()
        ],
        "" if state.plan is None else digest_of(state.plan),
    ]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
