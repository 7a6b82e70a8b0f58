"""`mlscope join`: makes this machine an agent of a cluster on another machine, and runs it.

DATA/membership/agent.nk        secret: this machine's own key, which never leaves it
DATA/membership/authority.pem   what the broker's certificate must be signed by
DATA/membership/member.json     the agent's name and the broker's address
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cli.cluster.keys.secret_files import ensure_key, write_secret
from cli.commands.serve import serve
from cli.failures import Misused
from cli.inputs.invitation import Invitation, invitation_in, typed_invitation
from mlscope.bus.access.permissions import agent_key, invitation_key
from mlscope.bus.errors import NoReply, NotPermitted
from mlscope.bus.nats import ClientRefused, dial
from mlscope.client.errors import CommandRefused
from mlscope.settings import Settings
from schemas.encoding.codec import decode_body
from schemas.request import Refused
from schemas.subjects import join_subject

_WITHIN_S = 15.0


def join(arguments: argparse.Namespace) -> int:
    """Join with an invitation unless this machine has, and run the agent until SIGTERM.

    Raises Misused without invitation or membership, NotPermitted, Unreachable, CommandRefused.
    """
    data: Path = Path(arguments.data) if arguments.data else Settings.read(os.environ).data_folder
    folder = data.resolve() / "membership"
    if word := typed_invitation() if arguments.invitation == "-" else arguments.invitation:
        asyncio.run(become_member(invitation_in(word), folder))
    elif not (folder / "member.json").exists():
        raise Misused("no invitation: `mlscope agents invite NAME` on the cluster prints one")
    os.environ.update(member_environ(folder), MLSCOPE_DATA=str(data.resolve()))
    print(f"{os.environ['MLSCOPE_AGENT_ID']} is running; stop it with Ctrl-C", file=sys.stderr)
    return serve(argparse.Namespace(service="agent"))


def member_environ(folder: Path) -> Mapping[str, str]:
    """Return the variables of the agent whose membership `folder` holds."""
    member = json.loads((folder / "member.json").read_text("utf-8"))
    authority = folder / "authority.pem"
    return {
        "MLSCOPE_NATS_URL": member["url"],
        "MLSCOPE_NATS_SEED_FILE": str(folder / "agent.nk"),
        "MLSCOPE_TLS_AUTHORITY_FILE": str(authority) if authority.exists() else "",
        "MLSCOPE_AGENT_ID": member["agent"],
    }


async def become_member(invitation: Invitation, folder: Path) -> None:
    """Have the cluster admit a key of this machine's own, unless it has already.

    The membership is kept in `folder.partial` until the key is admitted, so that a failure leaves
    an older one as it is. When the answer is lost, the same `invitation` is accepted again, as the
    key is known by then. Raises as `join` does.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    for keys_folder in (folder, partial):
        keys_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    member = json.dumps({"agent": invitation.agent, "url": invitation.url}) + "\n"
    # A key says who the machine is: as another agent, or to another cluster, it has another key.
    if _text_of(folder / "member.json") == member:
        write_secret(partial / "agent.nk", ensure_key(folder, "agent").seed)
    elif _text_of(partial / "member.json") != member:
        (partial / "agent.nk").unlink(missing_ok=True)
    key = ensure_key(partial, "agent")
    (partial / "authority.pem").unlink(missing_ok=True)
    if invitation.authority:
        write_secret(partial / "authority.pem", invitation.authority.strip())
    (partial / "member.json").write_text(member, "utf-8")
    await _be_admitted(invitation, partial, key.public)
    (folder / "authority.pem").unlink(missing_ok=True)
    for file in ("agent.nk", "authority.pem", "member.json"):
        if (partial / file).exists():
            (partial / file).replace(folder / file)
    shutil.rmtree(partial)


def _text_of(file: Path) -> str:
    return file.read_text("utf-8") if file.exists() else ""


async def _be_admitted(invitation: Invitation, folder: Path, public: str) -> None:
    """Return once the cluster takes the `public` key of `folder`.

    Raises NotPermitted, Misused, NoReply.
    """
    settings, agent = Settings.read(member_environ(folder)), invitation.agent
    if _is_admitted(settings, agent):
        return
    seed_file = folder / "invitation.nk"
    write_secret(seed_file, invitation.seed)
    lost_answer: NoReply | None = None
    try:
        await _ask(replace(settings, nats_seed_file=seed_file), agent, public)
    except NoReply as error:
        # The cluster closes the invitation's connection, at times before its answer has left.
        lost_answer = error
    finally:
        seed_file.unlink()
    deadline = time.monotonic() + _WITHIN_S
    while not _is_admitted(settings, agent):
        if time.monotonic() > deadline:
            refused = NotPermitted(f"a connection as {agent}, although the cluster admitted it")
            raise lost_answer or refused
        await asyncio.sleep(0.1)


async def _ask(settings: Settings, agent: str, public: str) -> None:
    """Ask to join as `agent` with a `public` key. Raises CommandRefused, Misused, Unreachable."""
    from mlscope.bus.nats.connection import Connection

    connection = Connection(settings, invitation_key(agent), patience_s=_WITHIN_S)
    try:
        await connection.open(_WITHIN_S)
    except NotPermitted:
        raise Misused(
            f"the invitation of {agent} was used or has expired: invite it again"
        ) from None
    try:
        answer = bytes((await connection.request(join_subject(agent), public.encode())).data)
    finally:
        with suppress(OSError, asyncio.CancelledError):  # the cluster closes it as well
            await connection.close()
    if b"true" not in answer:
        raise CommandRefused(decode_body(Refused, answer))


def _is_admitted(settings: Settings, agent: str) -> bool:
    """Tell whether the broker knows this machine's key. Raises ConnectionRefusedError."""
    try:
        connection, _ = dial(
            settings.nats_url, settings.nats_seed(), agent_key(agent), settings.tls_authority_file
        )
    except ClientRefused:
        return False
    connection.close()
    return True
