"""Every right is in use and none is missing: the whole story under real keys, traced."""

import asyncio
from pathlib import Path

import pytest

from mlscope.bus.access.permissions import PERMISSIONS, agent_key, invitation_key
from mlscope.client import AsyncClient
from tests.mlscope.bus.access.permission_story import AGENT, INVITED, Story, play
from tests.mlscope.bus.access.permission_trace import (
    Traced,
    TracedServer,
    covers,
    read_trace,
    unused,
)

OWN = agent_key(AGENT)
RARE = {
    ("registry", "$JS.API.DIRECT.GET.KV_catalog.$KV.catalog.*"): (
        "read after another registry wrote the same key first"
    ),
    ("provisioner", "$JS.API.STREAM.INFO.*"): "people look how full a stream is",
    ("provisioner", "$JS.API.STREAM.MSG.GET.*"): "people look at a message of the log",
    **{
        ("provisioner", right): "`mlscope backup` reads streams, and `mlscope restore` makes them"
        for right in PERMISSIONS["provisioner"].publish
        if "SNAPSHOT" in right or right.endswith(("STREAM.NAMES", "STREAM.RESTORE.*"))
    },
    **{
        ("provisioner", right): "a newer version, or another setting, wants a stream otherwise"
        for right in PERMISSIONS["provisioner"].publish
        if right.startswith("$JS.API.STREAM.UPDATE.")
    },
}
"""Rights that the story does not come to use, each with the reason why it is needed."""

_LAST = {("agent", "mlscope.v1.agent.*.left")}
"""Rights used when a service ends."""


def unused_rights(traced: Traced) -> set[tuple[str, str]]:
    """Return each right that no message made use of, with its owner, but for the rare ones.

    The agent that does the work has a key of its own: what it does, one that shares a key does.
    """
    left: set[tuple[str, str]] = set()
    for name, permission in PERMISSIONS.items():
        for rights, said in ((permission.publish, True), (permission.subscribe, False)):
            uses = traced.subjects(name, said=said)
            uses |= traced.subjects(OWN, said=said) if name == "agent" else set()
            left |= {(name, right) for right in unused(rights, uses)}
    return left - RARE.keys()


async def play_unless_refused(story: Story, client: AsyncClient, server: TracedServer) -> None:
    """Play every part; a refusal ends it at once, else somebody would wait for long."""
    playing = asyncio.create_task(play(story, client))
    while not playing.done() and not server.traced().refused:
        await asyncio.wait({playing}, timeout=0.5)
    if server.traced().refused:
        playing.cancel()
        await asyncio.wait({playing})
    else:
        await playing


async def settled(server: TracedServer) -> None:
    """Return once what comes by the clock, such as purges, has been seen too, or after a bound."""
    for _ in range(50):
        if unused_rights(server.traced()) <= _LAST:
            return
        await asyncio.sleep(0.1)


@pytest.mark.long
async def test_no_right_is_missing_and_none_is_unused(data_folder: Path, database_url: str) -> None:
    names = (*PERMISSIONS, OWN, invitation_key(INVITED))
    with TracedServer(data_folder, names=names) as server:
        story = Story(server, database_url)
        async with story.cluster() as client:
            await play_unless_refused(story, client, server)
            assert server.traced().refused == frozenset()
            await settled(server)
        traced = server.traced()
    assert traced.refused == frozenset()
    assert sorted(unused_rights(traced)) == []


def test_rare_rights_are_rights() -> None:
    assert all(right in PERMISSIONS[name].publish for name, right in RARE)


@pytest.mark.parametrize(
    ("right", "subject", "is_covered"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a.>", True),
        ("a.*", "a.*", True),
        ("a.>", "a", False),
        ("a.*", "a.>", False),
        ("a.*", "a.b.c", False),
        ("a.b", "a.*", False),
        ("a.b.>", "a.c.d", False),
    ],
)
def test_a_right_covers_a_subject(right: str, subject: str, is_covered: bool) -> None:
    assert covers(right, subject) is is_covered


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.API.STREAM.DELETE.EVALUATIONS",
        "$JS.API.STREAM.PURGE.EVALUATIONS",
        "$JS.API.STREAM.MSG.DELETE.EVALUATIONS",
        "$JS.API.STREAM.CREATE.ANOTHER",
        "$JS.API.CONSUMER.CREATE.EVALUATIONS.tap",
        "$JS.API.CONSUMER.DELETE.TRACES.spans",
        "mlscope.v1.request.evaluate",
    ],
)
def test_the_provisioner_makes_what_there_is_and_destroys_nothing(subject: str) -> None:
    assert not any(covers(right, subject) for right in PERMISSIONS["provisioner"].publish)


def test_what_was_refused_is_no_use() -> None:
    who = '[TRC] cid:1 - "v2:python3:x" - "MLSCOPE/nkey:UA"'
    log = (
        f'{who} - <<- [SUB a.> "" 1]\n'
        f"{who} - <<- [PUB b.c _INBOX_x.1 3]\n"
        f"{who} - <<- [HPUB d 1 2]\n"
        f'{who} - Publish Violation - Subject "b.c"\n'
        f'{who} - Subscription Violation - Subject "a.>", SID "1"\n'
    )
    traced = read_trace(log, {"UA": "x"})
    assert traced.refused == {("x", "b.c"), ("x", "a.>")}
    assert traced.subjects("x", said=True) == {"d"}
    assert traced.subjects("x", said=False) == set()
