"""`mlscope keys`: the secrets of a cluster that others start, one folder for each owner.

    OUT/nats/nats.conf        the broker's configuration: public keys and permissions
    OUT/nats/agents/NAME.pub  public key of an agent with a key of its own (`--agent NAME`)
    OUT/agent-NAME/seed.nk    its seed
    OUT/NAME/seed.nk          the nkey seed of a service, of `provisioner` and of `requester`
    OUT/database/password     of the database's one user
    OUT/gateway/token         bearer token of the gateway

Made once: what exists is kept, so that a restart changes no secret. Only nats.conf is written anew.
Agents that share the key `agent` trust each other; one that others must not be able to speak for,
nor it for them, gets its own. Without its NAME.pub the next nats.conf knows it no more. Where
NAME.pub was written by whoever holds the seed, no seed is made. The broker reads a new nats.conf
when started or sent SIGHUP.
"""

import argparse
import os
import re
from collections.abc import Iterable
from pathlib import Path

from cli import exits
from cli.cluster.keys import Key, ensure_key, ensure_password
from cli.cluster.nats_conf import NatsLayout, nats_conf
from cli.failures import Misused
from mlscope.bus.permissions import PERMISSIONS, agent_key, permission_of

_NATS_PORT, _MONITOR_PORT = 4222, 8222
_PUBLIC = re.compile(r"U[A-Z2-7]{55}")
_EVERYBODY, _OWNER_ONLY = 0o444, 0o400


def keys(arguments: argparse.Namespace) -> int:
    """Write every secret that is missing, readable by its owner alone."""
    out: Path = arguments.out
    owner: int | None = arguments.owner
    public = {name: _service_key(out / name, name, owner).public for name in PERMISSIONS}
    public |= _agents(out, arguments.agent, owner)
    _give(ensure_password(out / "gateway" / "token").path, owner, _OWNER_ONLY)
    # Read by the database's own user as well as by the services: the volume is what guards it.
    _give(ensure_password(out / "database" / "password").path, owner, _EVERYBODY)
    layout = NatsLayout(
        store="/data",
        host="0.0.0.0",  # noqa: S104 (inside a container's own network)
        port=_NATS_PORT,
        monitor_host="127.0.0.1",
        monitor_port=_MONITOR_PORT,
    )
    conf = out / "nats" / "nats.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text(nats_conf(layout, public), "utf-8")
    print(out)
    return exits.OK


def _agents(out: Path, asked: Iterable[str], owner: int | None) -> dict[str, str]:
    """Return the names and public keys of agents with keys of their own; make those asked for.

    Raises Misused for a name that no agent can have, and for a file that holds no public key.
    """
    folder = out / "nats" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    for agent in map(_named, asked):
        known = folder / f"{agent}.pub"
        if not known.exists():
            key = _service_key(out / agent_key(agent), agent_key(agent), owner)
            known.write_text(f"{key.public}\n", "ascii")
    return {agent_key(_named(file.stem)): _read(file) for file in sorted(folder.glob("*.pub"))}


def _named(agent: str) -> str:
    try:
        permission_of(agent_key(agent))
    except KeyError as error:
        allowed = "1 to 64 of A-Z a-z 0-9 _ -, and not `scheduler`"
        raise Misused(f"{agent!r} cannot be an agent's name: {allowed}") from error
    return agent


def _read(file: Path) -> str:
    public = file.read_text("utf-8").strip()
    if not _PUBLIC.fullmatch(public):
        raise Misused(f"{file} holds no user's public nkey")
    return public


def _service_key(folder: Path, name: str, owner: int | None) -> Key:
    key = ensure_key(folder, name)
    seed = folder / "seed.nk"
    if not seed.exists():
        seed.symlink_to(key.seed_file.name)
    _give(key.seed_file, owner, _OWNER_ONLY)
    return key


def _give(path: Path, owner: int | None, mode: int) -> None:
    """Hand a secret and its folder to its reader."""
    path.chmod(mode)
    if owner is not None:
        os.chown(path.parent, owner, owner)
        os.chown(path, owner, owner)
    if mode == _EVERYBODY:
        path.parent.chmod(0o755)
