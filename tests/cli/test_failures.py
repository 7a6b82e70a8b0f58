"""An error ends a command with its code and a sentence; a defect of ours is not hidden."""

from pathlib import Path
from subprocess import CalledProcessError

import pytest

from cli import exits
from cli.cluster.errors import NotUp
from cli.failures import Misused, explain, refusal_text
from mlscope.bus.errors import NotPermitted
from mlscope.client.errors import (
    CommandRefused,
    Denied,
    NoCluster,
    NoSuchTable,
    NotAnswering,
    StillRunning,
)
from mlscope.settings import InvalidSetting
from schemas.encoding.errors import MalformedMessage
from schemas.request import AgentReason, Refused


def refusal(error: str) -> CommandRefused:
    return CommandRefused(Refused(error=error, message="m"))


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (refusal("invalid"), exits.USAGE, "invalid: m"),
        (refusal("unsatisfiable"), exits.NO_AGENT, "unsatisfiable: m"),
        (refusal("busy"), exits.FAILED, "busy: m"),
        (Denied("publish", "no"), exits.AUTH, "publish: no"),
        (StillRunning("e1", 3.0), exits.FAILED, "`mlscope watch e1`"),
        (Misused("--x: y"), exits.USAGE, "--x: y"),
        (NoSuchTable("zzz", ("latency",)), exits.USAGE, "latency"),
        (InvalidSetting("MLSCOPE_X", "1", "two"), exits.USAGE, "MLSCOPE_X=1: expected two"),
        (MalformedMessage(field="f", found="1", expected="2"), exits.USAGE, "f: 2"),
        (NoCluster("here"), exits.FAILED, "mlscope up --detach"),
        (NotAnswering("evaluate", "silence"), exits.FAILED, "mlscope status"),
        (NotUp(Path("here")), exits.FAILED, "here"),
        (FileNotFoundError(2, "No such file", "x.yml"), exits.FAILED, "x.yml: No such file"),
        (CalledProcessError(1, ["python", "-m", "x"]), exits.FAILED, "`-m x` failed"),
    ],
)
def test_an_error_has_a_code_and_a_next_step(error: Exception, code: int, said: str) -> None:
    failure = explain(error)
    assert failure is not None
    assert failure.code == code
    assert said in failure.text


def test_a_missing_right_is_a_matter_of_the_key() -> None:
    failure = explain(NotPermitted("mlscope.v1.request.publish"))
    assert failure is not None
    assert failure.code == exits.AUTH


def test_a_defect_of_ours_is_not_explained_away() -> None:
    assert explain(ZeroDivisionError()) is None


def test_each_agent_s_reason_stands_once() -> None:
    refused = Refused(
        error="unsatisfiable",
        message="no agent fits: a1: too small; a2: gone",
        agents=(
            AgentReason(agent="a1", reason="too small"),
            AgentReason(agent="a2", reason="gone"),
        ),
    )
    assert refusal_text(refused).splitlines() == [
        "unsatisfiable: no agent fits",
        "  a1: too small",
        "  a2: gone",
    ]


def test_a_suggestion_needs_no_list_of_names() -> None:
    told = "no table is called layer; did you mean layers?"
    refused = Refused(error="unknown", message=told, field="tables", found="layer", allowed="a, b")
    assert refusal_text(refused) == told
    none_alike = refused.model_copy(update={"message": "no table is called layer"})
    assert refusal_text(none_alike).splitlines() == [
        "no table is called layer",
        "  field: tables",
        "  allowed: a, b",
    ]


def test_what_the_message_does_not_say_follows_it() -> None:
    refused = Refused(error="invalid", message="wrong", field="batch_sizes", found="0", allowed="1")
    assert refusal_text(refused).splitlines() == [
        "invalid: wrong",
        "  field: batch_sizes",
        "  found: 0",
        "  allowed: 1",
    ]
