"""Machines that join a cluster with real keys, over TLS, and one that is revoked."""

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.cluster.keys import ensure_key
from cli.cluster.members import Members
from cli.cluster.state import ClusterState, running_state
from cli.commands import agents, join
from cli.failures import Misused
from cli.inputs.invitation import Invitation, invitation_in
from mlscope.bus.errors import BusError, NotPermitted
from mlscope.bus.nats import connect
from mlscope.bus.permissions import agent_inbox, agent_key
from mlscope.client.connection import find_settings
from mlscope.provision import provision
from mlscope.settings import Settings
from tests.cli.cluster.test_supervisor import STUB


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


def arguments(folder: Path, **more: Any) -> argparse.Namespace:
    """Return the arguments of a command about agents."""
    own = {"data": str(folder), "url": "", "seed_file": "", "name": "gpu1", "hours": 1.0}
    return argparse.Namespace(**own, **more)


def invited(folder: Path, capsys: pytest.CaptureFixture[str]) -> Invitation:
    """Invite a machine and return what it is given."""
    assert agents.invite(arguments(folder)) == 0
    return invitation_in(capsys.readouterr().out.split()[-1])


async def lease_of(settings: Settings, agent: str) -> object:
    """Return what an agent that connects with `settings` reads of its own lease."""
    key = agent_key(agent)
    async with connect(settings, key, inbox=agent_inbox(agent), timeout_s=5.0) as bus:
        return await bus.get("leases", f"agent-{agent}")


async def test_a_machine_joins_once_and_is_revoked(
    data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with listening(data_folder):
        operator = find_settings({}, data=str(data_folder))
        seed_file = data_folder / "keys" / "provisioner.nk"
        await provision(replace(operator, nats_seed_file=seed_file))
        invitation = await asyncio.to_thread(invited, data_folder, capsys)
        # This machine's clock may be ahead: the cluster's says when an invitation ends.
        invitation = replace(invitation, ends_s=0.0)
        assert invitation.seed not in (data_folder / "nats.conf").read_text()
        await join.become_member(invitation, tmp_path / "one")
        older = tmp_path / "other"
        seed = ensure_key(older, "agent").seed
        (older / "member.json").write_text("{}")
        membership = {"agent.nk": f"{seed}\n", "member.json": "{}"}
        with pytest.raises(Misused, match="was used or has ended"):
            await join.become_member(invitation, older)
        assert {path.name: path.read_text() for path in older.iterdir()} == membership
        # The answer was lost: the same word is taken again from the machine that has joined.
        await join.become_member(invitation, tmp_path / "one")
        with pytest.raises(Misused, match="has joined already"):
            agents.invite(arguments(data_folder))

        member = Settings.read(join.member_environ(tmp_path / "one"))
        assert await lease_of(member, "gpu1") is None
        with pytest.raises(BusError):
            await lease_of(member, "gpu2")
        assert Members(data_folder).keys.keys() == {"gpu1"}

        key = agent_key("gpu1")
        async with connect(member, key, inbox=agent_inbox("gpu1")) as bus:
            assert await agents.revoke(arguments(data_folder)) == 0
            with pytest.raises(BusError):
                await bus.get("leases", "agent-gpu1")
        with pytest.raises(NotPermitted):
            await lease_of(member, "gpu1")
        with pytest.raises(Misused, match="no machine joined"):
            await agents.revoke(arguments(data_folder))


def test_a_cluster_on_loopback_invites_nobody(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        agents, "running_state", lambda _: argparse.Namespace(nats_url="nats://127.0.0.1:4222")
    )
    with pytest.raises(Misused, match="mlscope up --listen ADDRESS"):
        agents.invite(arguments(data_folder))
