"""`mlscope keys`: the secrets of a cluster in containers, a folder for each owner.

    OUT/nats/nats.conf        the broker's configuration: public keys and permissions
    OUT/nats/agents/NAME.pub  public key of an agent with its own key (`--agent NAME`)
    OUT/agent-NAME/seed.nk    its seed
    OUT/NAME/seed.nk          nkey seed of a service, of `provisioner` and of `requester`
    OUT/database/password     password of the database's only user
    OUT/gateway/token         bearer token of the gateway

Existing secrets are kept, so that a restart changes none; only nats.conf is always rewritten.
Agents that share the key `agent` trust each other. An agent that must not be impersonated by
others, nor impersonate them, gets its own key. When its NAME.pub is deleted, the next nats.conf
rejects it. When its owner has put NAME.pub there, no seed is created. The broker reads a new
nats.conf when it starts or receives SIGHUP.
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
_PUBLIC_KEY = re.compile(r"U[A-Z2-7]{55}")
_EVERYBODY, _OWNER_ONLY = 0o444, 0o400


def keys(arguments: argparse.Namespace) -> int:
    """Write every missing secret, readable by its owner only."""
    out: Path = arguments.out
    owner: int | None = arguments.owner
    public = {name: _service_key(out / name, name, owner).public for name in PERMISSIONS}
    public |= _agent_keys(out, arguments.agent, owner)
    _set_owner(ensure_password(out / "gateway" / "token").path, owner, _OWNER_ONLY)
    # The services and the database's own user read it: only the volume protects this file.
    _set_owner(ensure_password(out / "database" / "password").path, owner, _EVERYBODY)
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


def _agent_keys(out: Path, agents: Iterable[str], owner: int | None) -> dict[str, str]:
    """Return the connection names and public keys of agents with their own keys.

    Creates the missing keys of `agents`. Raises Misused for a name that no agent can have, and for
    a file without a public key.
    """
    folder = out / "nats" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    for agent in agents:
        key_name = _key_name(agent)
        public_file = folder / f"{agent}.pub"
        if not public_file.exists():
            key = _service_key(out / key_name, key_name, owner)
            public_file.write_text(f"{key.public}\n", "ascii")
    public_keys = {}
    for file in sorted(folder.glob("*.pub")):
        public = file.read_text("utf-8").strip()
        key_name = _key_name(file.stem)
        if not _PUBLIC_KEY.fullmatch(public):
            raise Misused(f"{file} holds no public nkey of a user")
        public_keys[key_name] = public
    return public_keys


def _key_name(agent: str) -> str:
    name = agent_key(agent)
    try:
        permission_of(name)
    except KeyError as error:
        allowed = "allowed: 1 to 64 of A-Z a-z 0-9 _ -, except `scheduler`"
        raise Misused(f"--agent {agent!r}: not an agent's name; {allowed}") from error
    return name


def _service_key(folder: Path, name: str, owner: int | None) -> Key:
    key = ensure_key(folder, name)
    seed = folder / "seed.nk"
    if not seed.exists():
        seed.symlink_to(key.seed_file.name)
    _set_owner(key.seed_file, owner, _OWNER_ONLY)
    return key


def _set_owner(path: Path, owner: int | None, mode: int) -> None:
    """Set the mode of a secret, and give it and its folder to `owner`."""
    path.chmod(mode)
    if owner is not None:
        os.chown(path.parent, owner, owner)
        os.chown(path, owner, owner)
    if mode == _EVERYBODY:
        path.parent.chmod(0o755)
