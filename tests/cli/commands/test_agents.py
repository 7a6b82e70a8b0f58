"""Machines that join a cluster with real keys, over TLS, and one that is revoked."""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.cluster.keys.admission import admit
from cli.cluster.keys.members import Members
from cli.cluster.keys.secret_files import ensure_key
from cli.cluster.state import ClusterState, running_state
from cli.commands import agents, join
from cli.failures import Misused
from cli.inputs import operator
from cli.inputs.invitation import Invitation, invitation_in
from cli.inputs.operator import NotRecorded, tell_broker
from mlscope.bus.access.permissions import agent_inbox, agent_key
from mlscope.bus.errors import BusError, KeyRevoked, NoReply, NotPermitted, Unreachable
from mlscope.bus.nats import connect
from mlscope.bus.records import ReceivedCommand
from mlscope.client.connection import find_settings
from mlscope.client.errors import NotAnswering
from mlscope.provision import provision
from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryBus, MemoryServer
from schemas.agent import AgentJoined
from schemas.status import AgentStatus, Catalog
from schemas.subjects import facts_of, join_subject
from tests.cli.cluster.test_supervisor import STUB
from tests.services.registry.samples import an_announcement


@contextmanager
def listening(folder: Path) -> Iterator[ClusterState]:
    """Run a cluster without services of its own that other machines reach."""
    environ = {
        **os.environ,
        "MLSCOPE_GATEWAY_PORT": "0",
        "MLSCOPE_LISTEN": "127.0.0.2",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    argv = [sys.executable, str(STUB), str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "mlscope running" in line)
        try:
            yield running_state(folder)
        finally:
            process.terminate()
            process.wait(30)


def arguments(folder: Path, name: str = "gpu1", **more: Any) -> argparse.Namespace:
    """Return the arguments of a command about agents."""
    own = {"data": str(folder), "url": "", "seed_file": "", "name": name, "hours": 1.0}
    return argparse.Namespace(**own, **more)


async def provisioned(folder: Path) -> Settings:
    """Make the streams of the cluster in a `folder`; return its provisioner's settings."""
    own = find_settings({}, data=str(folder))
    settings = replace(own, nats_seed_file=folder / "keys" / "provisioner.nk")
    await provision(settings)
    return settings


async def recorded_of(settings: Settings) -> list[tuple[str, str]]:
    """Return the name and the agent of each fact about agents, as the provisioner reads them."""
    async with connect(settings, "provisioner") as log:
        recorded = await log.read(facts_of(AgentJoined))
    return [(each.fact.schema_name(), str(getattr(each.fact, "agent", ""))) for each in recorded]


async def invited(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str = "gpu1"
) -> Invitation:
    """Invite a machine and return what it is given."""
    assert await agents.invite(arguments(folder, name)) == 0
    return invitation_in(capsys.readouterr().out.split()[-1])


async def lease_of(settings: Settings, agent: str) -> object:
    """Return what an agent that connects with `settings` reads of its own lease."""
    key = agent_key(agent)
    async with connect(settings, key, inbox=agent_inbox(agent), timeout_s=5.0) as bus:
        return await bus.get("leases", f"agent-{agent}")


async def unreachable(*_: object) -> None:
    """Be a command that meets no broker."""
    raise Unreachable("away")


async def unrecorded(*_: object) -> None:
    """Be a record that meets no broker."""
    raise NotAnswering("connect", "away")


async def test_a_machine_joins_though_the_answer_is_lost(
    data_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = join._ask

    async def ask_in_vain(settings: Settings, agent: str, public: str) -> None:
        await ask(settings, agent, public)
        raise NoReply(agent)

    monkeypatch.setattr(join, "_ask", ask_in_vain)
    with listening(data_folder):
        await provisioned(data_folder)
        invitation = await invited(data_folder, capsys)
        await join.become_member(replace(invitation, ends_s=0.0), tmp_path / "one")
        assert Members(data_folder).keys.keys() == {"gpu1"}


async def test_a_machine_joins_once_and_is_revoked(
    data_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with listening(data_folder):
        provisioner = await provisioned(data_folder)
        invitation = await invited(data_folder, capsys)
        # This machine's clock may be ahead: the cluster's says when an invitation ends.
        invitation = replace(invitation, ends_s=0.0)
        assert invitation.seed not in (data_folder / "nats.conf").read_text()
        await join.become_member(invitation, tmp_path / "one")
        older = tmp_path / "other"
        seed = ensure_key(older, "agent").seed
        (older / "member.json").write_text("{}")
        membership = {"agent.nk": f"{seed}\n", "member.json": "{}"}
        with pytest.raises(Misused, match="was used or has expired"):
            await join.become_member(invitation, older)
        assert {path.name: path.read_text() for path in older.iterdir()} == membership
        # The answer was lost: the same word is taken again from the machine that has joined.
        await join.become_member(invitation, tmp_path / "one")
        with pytest.raises(Misused, match="has joined already"):
            await agents.invite(arguments(data_folder))

        member = Settings.read(join.member_environ(tmp_path / "one"))
        assert await lease_of(member, "gpu1") is None
        with pytest.raises(BusError):
            await lease_of(member, "gpu2")
        assert Members(data_folder).keys.keys() == {"gpu1"}

        # The same machine as another agent has another key, with that one's rights.
        second = await invited(data_folder, capsys, "gpu2")
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        await join.become_member(second, tmp_path / "two")
        renamed = Settings.read(join.member_environ(tmp_path / "two"))
        assert await lease_of(renamed, "gpu2") is None

        key = agent_key("gpu1")
        async with connect(member, key, inbox=agent_inbox("gpu1"), patience_s=3.0) as bus:
            with monkeypatch.context() as patch:
                patch.setattr(operator, "record_decision", unrecorded)
                with pytest.raises(NotRecorded, match="of gpu1 no longer works, but the audit"):
                    await agents.revoke(arguments(data_folder))
            with pytest.raises(Misused, match="`mlscope agents revoke gpu1` again, then invite"):
                await agents.invite(arguments(data_folder))
            # Half of it was done; the rest is done when it is asked for again.
            assert await agents.revoke(arguments(data_folder)) == 0
            with pytest.raises(BusError):
                await bus.get("leases", "agent-gpu1")
            async with asyncio.timeout(20.0):
                assert isinstance(await bus.wait_closed(), KeyRevoked)
        with pytest.raises(NotPermitted):
            await lease_of(member, "gpu1")
        with pytest.raises(Misused, match="no machine joined"):
            await agents.revoke(arguments(data_folder))
        assert await recorded_of(provisioner) == [
            ("agent.invited", "gpu1"),
            ("agent.joined", "gpu1"),
            ("agent.invited", "gpu2"),
            ("agent.joined", "gpu2"),
            ("agent.revoked", "gpu1"),
        ]


async def test_nobody_is_invited_without_a_record(
    data_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "record_decision", unreachable)
    state = argparse.Namespace(nats_url="tls://127.0.0.1:1", authority_file="")
    monkeypatch.setattr(agents, "running_state", lambda _: state)
    with pytest.raises(Unreachable):
        await agents.invite(arguments(data_folder))
    assert Members(data_folder).invitations(0.0) == {}
    assert capsys.readouterr().out == ""


class _Log(MemoryBus):
    """A log that takes nothing."""

    async def publish(self, *_: object, **__: object) -> int:
        raise Unreachable("away")


async def test_nobody_joins_without_a_record(data_folder: Path) -> None:
    members, public = Members(data_folder), ensure_key(data_folder, "own").public
    members.invite("gpu1", ensure_key(data_folder, "invitation").public, time.time() + 60)
    command = ReceivedCommand(join_subject("gpu1"), public.encode(), wants_answer=True)
    with pytest.raises(Unreachable):
        await admit(members, _Log(MemoryServer(), "operator"), command)
    assert members.keys == {}
    assert members.invitation_of("gpu1", public)


def test_the_broker_reads_again_what_it_has_read(data_folder: Path) -> None:
    # The supervisor may have found a change by itself, before the command counts the loads.
    with listening(data_folder) as state:
        for _ in range(2):
            tell_broker(Members(data_folder), state)


async def test_a_cluster_on_loopback_invites_nobody(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        agents, "running_state", lambda _: argparse.Namespace(nats_url="nats://127.0.0.1:4222")
    )
    with pytest.raises(Misused, match="mlscope up --listen ADDRESS"):
        await agents.invite(arguments(data_folder))


class _Client:
    """A cluster whose catalog has one agent."""

    async def catalog(self, *, kind: str) -> Catalog:
        """Return the catalog."""
        assert kind == "agent"
        return Catalog(agents=(AgentStatus(announcement=an_announcement("box"), state="live"),))


@pytest.mark.parametrize("command", [agents.drain, agents.resume])
async def test_only_an_agent_that_exists_is_drained_or_resumed(
    data_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[[argparse.Namespace], Awaitable[int]],
) -> None:
    @asynccontextmanager
    async def client_of(_: argparse.Namespace) -> AsyncIterator[_Client]:
        yield _Client()

    recorded: list[str] = []

    async def record(arguments: argparse.Namespace, _: object) -> None:
        recorded.append(arguments.name)

    monkeypatch.setattr(agents, "client_of", client_of)
    monkeypatch.setattr(agents, "record_decision", record)
    with pytest.raises(Misused, match="no agent is named gpu1; known agents: box"):
        await command(arguments(data_folder))
    assert await command(arguments(data_folder, "box")) == 0
    assert recorded == ["box"]
