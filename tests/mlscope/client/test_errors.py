"""Errors say to a user what was asked and what helps."""

from mlscope.client.errors import (
    CommandRefused,
    Denied,
    EvaluationRefused,
    NoCluster,
    NoSuchTable,
    NotAnswering,
    StillRunning,
)
from schemas.request import AgentReason, Refused

REFUSED = Refused(
    error="unsatisfiable",
    message="no agent fits",
    field="system",
    agents=(AgentReason(agent="a1", reason="too little memory"),),
)


def test_a_refusal_is_said_and_kept_whole() -> None:
    error = EvaluationRefused(REFUSED)
    assert isinstance(error, CommandRefused)
    assert (str(error), error.error, error.field) == ("no agent fits", "unsatisfiable", "system")
    assert error.agents[0].reason == "too little memory"


def test_each_error_names_what_helps() -> None:
    assert "mlscope up" in str(NoCluster("/data"))
    assert "mlscope status" in str(NotAnswering("evaluate", "no answer"))
    assert str(Denied("evaluate", "not permitted")) == "evaluate: not permitted"
    assert "known tables: none yet" in str(NoSuchTable("latency", ()))
    assert "e1 is still running after 3 s" in str(StillRunning("e1", 3.0))
