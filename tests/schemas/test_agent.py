"""What agents say of themselves: bounds hold, and later fields do no harm."""

from typing import Any

import pytest

from schemas.agent import AgentAnnounced, Announcement, Hardware, Lease, Runtime
from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.level import Level
from schemas.subjects import subject_of

_HERE = {"hostname": "h", "architecture": "amd64"}
_ANNOUNCED = {"agent": "a1", "incarnation": "i", "hardware": _HERE, "runtimes": []}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"agent": "a b"}, "agent"),
        ({"hardware": {"hostname": "h"}}, "hardware.architecture"),
        ({"hardware": {**_HERE, "cores": 0}}, "hardware.cores"),
        ({"hardware": {**_HERE, "accelerators": [{}]}}, "hardware.accelerators.0.name"),
        ({"runtimes": [{"framework": "f"}]}, "runtimes.0.version"),
        ({"labels": {"rack": 7}}, "labels.rack"),
    ],
)
def test_what_is_wrong_with_an_announcement_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedMessage) as raised:
        parse(Announcement, _ANNOUNCED | changes)
    assert raised.value.field == field


def test_a_sandbox_in_one_text_is_read_as_two_fields() -> None:
    lacking = parse(Announcement, _ANNOUNCED | {"sandbox": "auto; no Landlock; no seccomp"})
    assert (lacking.sandbox, lacking.sandbox_missing) == ("auto", ("no Landlock", "no seccomp"))
    whole = parse(Announcement, _ANNOUNCED | {"sandbox": "off"})
    assert (whole.sandbox, whole.sandbox_missing) == ("off", ())


def test_what_an_agent_does_not_say_is_little() -> None:
    told = parse(Announcement, _ANNOUNCED | {"added_later": 1})
    assert (told.hardware.cores, told.hardware.accelerators, told.labels) == (1, (), {})
    assert not told.allows_inline_python
    runtime = Runtime(framework="f", version="1")
    assert (runtime.devices, runtime.deepest_level) == (("cpu",), Level.MODEL)


def test_an_agent_s_facts_are_under_its_own_subject() -> None:
    fact = AgentAnnounced(agent="a1", announcement=parse(Announcement, _ANNOUNCED))
    assert subject_of(fact) == "mlscope.v1.agent.a1.announced"


def test_an_agent_announces_itself_alone() -> None:
    other = {**_ANNOUNCED, "agent": "a2"}
    with pytest.raises(MalformedMessage, match="the announcement of a1 names a2"):
        parse(AgentAnnounced, {"agent": "a1", "announcement": other})


def test_a_lease_says_who_lives() -> None:
    assert parse(Lease, {"holder": "a1", "incarnation": "i"}).busy == ()
    assert Hardware(**_HERE).interconnect == ""
