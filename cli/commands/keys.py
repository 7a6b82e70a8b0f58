"""`mlscope keys`: the secrets of a cluster that others start, one folder for each owner.

    OUT/nats/nats.conf        the broker's configuration: public keys and permissions
    OUT/NAME/seed.nk          the nkey seed of a service, of `provisioner` and of `requester`
    OUT/database/password     of the database's one user
    OUT/gateway/token         bearer token of the gateway

Made once: what exists is kept, so that a restart changes no secret. Only nats.conf is written anew.
"""

import argparse
import os
from pathlib import Path

from cli import exits
from cli.cluster.keys import Key, ensure_key, ensure_password
from cli.cluster.nats_conf import NatsLayout, nats_conf
from mlscope.bus.permissions import PERMISSIONS

_NATS_PORT, _MONITOR_PORT = 4222, 8222
_EVERYBODY, _OWNER_ONLY = 0o444, 0o400


def keys(arguments: argparse.Namespace) -> int:
    """Write every secret that is missing, readable by its owner alone."""
    out: Path = arguments.out
    owner: int | None = arguments.owner
    public = {name: _service_key(out / name, name, owner).public for name in PERMISSIONS}
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
