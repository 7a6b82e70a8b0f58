"""`mlscope agents`: the agents of a cluster, and which machines may be one."""

import argparse
import datetime as dt
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from cli import exits
from cli.cluster.keys.members import Members, is_agent
from cli.cluster.keys.secret_files import ensure_key
from cli.cluster.state import ClusterState, running_state
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.inputs.invitation import Invitation
from cli.inputs.operator import record_decision, record_deed, tell_broker
from cli.printing.output import rows_of, write_rows
from mlscope.settings import Settings
from schemas.agent import AgentDrained, AgentInvited, AgentResumed, AgentRevoked
from schemas.price import Price
from schemas.status import AgentStatus

_OTHER_KEYS = {"revoked": ""}
_COLUMNS = ("agent", "host", "state", "since", "version", "key", "price")


async def agents(arguments: argparse.Namespace) -> int:
    """List the agents and the open invitations."""
    members = _members(arguments)
    async with client_of(arguments) as client:
        catalog = await client.catalog(kind="agent")
    own = members.keys
    announced = [_row(status, own, catalog.prices) for status in catalog.agents]
    unseen = own.keys() - {row["agent"] for row in announced}
    invited = members.invitations(time.time())
    rows = [
        *announced,
        *(_unseen(agent, "joined, never seen", "", "own") for agent in unseen),
        *(
            _unseen(agent, "invited", f"until {_clock(ends_s)}", "invitation")
            for agent, (_, ends_s) in invited.items()
        ),
    ]
    rows.sort(key=lambda row: row["agent"])
    write_rows(rows_of(rows, _COLUMNS), arguments.output)
    return exits.OK


def _row(status: AgentStatus, own: dict[str, str], prices: Mapping[str, Price]) -> dict[str, str]:
    announcement = status.announcement
    agent_price = prices.get(announcement.agent)
    is_drained = status.is_drained and status.state == "live"
    return {
        "agent": announcement.agent,
        "host": announcement.hardware.hostname,
        "state": "drained" if is_drained else status.state,
        "since": _clock(status.since_ns / 1e9),
        "version": announcement.mlscope_version,
        "key": "own" if announcement.agent in own else _OTHER_KEYS.get(status.state, "shared"),
        "price": f"${agent_price.dollars_per_hour:g}/h" if agent_price else "",
    }


def _unseen(agent: str, state: str, since: str, key: str) -> dict[str, str]:
    texts = {"agent": agent, "state": state, "since": since, "key": key}
    return dict.fromkeys(_COLUMNS, "") | texts


def _clock(epoch_s: float) -> str:
    """Return a time of this machine's time zone."""
    return dt.datetime.fromtimestamp(epoch_s).astimezone().isoformat(" ", "seconds")


async def invite(arguments: argparse.Namespace) -> int:
    """Print the command that lets another machine join as an agent, once, and what it asks for.

    An invitation that cannot be recorded is not made. Raises NotUp, NotAnswering, and Misused for a
    name that is taken or a cluster that nobody else reaches.
    """
    agent, members = arguments.name, _members(arguments)
    state = running_state(members.folder)
    if not state.nats_url.startswith("tls:"):
        raise Misused("other machines cannot reach this cluster: mlscope up --listen ADDRESS")
    if not is_agent(agent):
        allowed = "allowed: 1 to 64 of A-Z a-z 0-9 _ -, except `scheduler`"
        raise Misused(f"{agent!r}: not an agent's name; {allowed}")
    if agent in members.keys:
        raise Misused(f"{agent} has joined already: `mlscope agents revoke {agent}` comes first")
    if members.is_being_removed(agent):
        raise Misused(
            f"the removal of {agent} was not recorded: run `mlscope agents revoke {agent}` again, "
            "then invite it"
        )
    with tempfile.TemporaryDirectory() as folder:
        key = ensure_key(Path(folder), "invitation")
        seed = key.seed
    ends_s = time.time() + arguments.hours * 3600
    await record_decision(arguments, AgentInvited(agent=agent, ends_ns=round(ends_s * 1e9)))
    members.invite(agent, key.public, ends_s)
    tell_broker(members, state)
    invitation = Invitation(agent, state.nats_url, seed, _authority(state), ends_s)
    print(f"mlscope join -\n{invitation.word()}")
    return exits.OK


def _authority(state: ClusterState) -> str:
    return Path(state.authority_file).read_text("ascii") if state.authority_file else ""


async def drain(arguments: argparse.Namespace) -> int:
    """Give an agent no new evaluations. Raises Misused for a name that no agent has."""
    await _check_name(arguments)
    await record_decision(arguments, AgentDrained(agent=arguments.name))
    print(f"{arguments.name} finishes the evaluations that it has and gets no new ones")
    return exits.OK


async def resume(arguments: argparse.Namespace) -> int:
    """Give a drained agent evaluations again. Raises Misused for a name that no agent has."""
    await _check_name(arguments)
    await record_decision(arguments, AgentResumed(agent=arguments.name))
    print(f"{arguments.name} gets evaluations again")
    return exits.OK


async def _check_name(arguments: argparse.Namespace) -> None:
    async with client_of(arguments) as client:
        catalog = await client.catalog(kind="agent")
    names = {status.announcement.agent for status in catalog.agents}
    if arguments.name not in names:
        present = ", ".join(sorted(names)) or "none"
        raise Misused(f"no agent is named {arguments.name}; known agents: {present}")


async def revoke(arguments: argparse.Namespace) -> int:
    """Revoke an agent's key: its connection closes, and its runs are repeated elsewhere.

    A revocation that failed after the key was gone is completed by the next one.

    Raises NotUp, NotRecorded, and Misused for an agent without a key of its own.
    """
    agent, members = arguments.name, _members(arguments)
    state = running_state(members.folder)
    before = members.users()
    if not members.remove(agent):
        own = ", ".join(members.keys) or "none"
        raise Misused(f"no machine joined or was invited as {agent}; known machines: {own}")
    if members.users() != before:  # else only an invitation that had ended was removed
        tell_broker(members, state)
    deed = f"the key of {agent} no longer works"
    await record_deed(arguments, AgentRevoked(agent=agent), deed)
    members.end_removal(agent)
    print(deed)
    return exits.OK


async def price(arguments: argparse.Namespace) -> int:
    """Set an agent's hourly price, also of an agent that is gone; without one, forget it."""
    async with client_of(arguments) as client:
        await client.set_price(arguments.name, arguments.dollars)
    if arguments.dollars is None:
        print(f"{arguments.name} has no price")
    else:
        print(f"an hour on {arguments.name} costs ${arguments.dollars:g}")
    return exits.OK


def _members(arguments: argparse.Namespace) -> Members:
    folder = Path(arguments.data) if arguments.data else Settings.read(os.environ).data_folder
    return Members(folder.resolve())
