"""`mlscope keys`: the secrets of a cluster in containers, a folder for each owner.

    OUT/nats/nats.conf        the broker's configuration: public keys and permissions, and the
                              secret path of its monitor
    OUT/nats/agents/NAME.pub  public key of an agent with its own key (`--agent NAME`)
    OUT/agent-NAME/seed.nk    its seed
    OUT/NAME/seed.nk          nkey seed of a service, of `provisioner` and of `requester`
    OUT/database/password     password of the database's only user
    OUT/gateway/token         bearer token of the gateway
    OUT/people/NAME.json      what broker and gateway read of a person (`--person NAME:ROLE`)
    OUT/people/NAME.nk        the person's seed, and NAME.token, for the pages: hand both over

With `--broker HOST`, given once for each of three brokers, they keep everything three times and
speak TLS to each other and to clients:

    OUT/nats/HOST.conf        a broker's configuration, named by the first label of its host
    OUT/nats/server.pem       the certificate of all brokers, and server.key, its secret key
    OUT/nats/monitor.path     what the paths of their monitors begin with: a secret
    OUT/authority/            authority.pem, which clients trust; its secret key stays in OUT/tls

`--address HOST` is a further name in their certificate, by which clients elsewhere reach them.
OUT/tls/addresses has all of them, and keeps them for later calls.

Without `--broker`, `--address HOST` has one broker speak TLS, under that name, to the services and
to other machines; `cli.cluster.keys.published` admits these:

    OUT/nats/monitor.path     as above; other containers reach the monitor of this broker
    OUT/gateway/server.pem    the certificate for the pages too, and server.key
    OUT/admission/            the data folder of the service that admits machines and people
    OUT/broker/               for the broker's configuration, which that service writes

Existing secrets are kept, so that a restart changes none; only nats.conf is made anew each time.
Agents that share the key `agent` trust each other. An agent that must not be impersonated by
others, nor impersonate them, gets its own key. When its NAME.pub is deleted, the next nats.conf
rejects it, unless `--agent` names it again. When its owner has put NAME.pub there, no seed is
created. A person whose NAME.json is deleted is rejected likewise. The broker reads a new nats.conf
when it starts or receives SIGHUP; one with a new path of the monitor only when it starts.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from cli import exits
from cli.cluster.keys.person_files import asker_in, ensure_person
from cli.cluster.keys.published import PublishedBroker
from cli.cluster.keys.secret_files import Key, ensure_key, ensure_password, write_secret
from cli.cluster.servers.nats_conf import MIB, NatsLayout, Routes, nats_conf
from cli.cluster.servers.nats_server import write_if_changed
from cli.failures import Misused
from mlscope.bus.access.permissions import OPERATOR, PERMISSIONS, agent_key, permission_of
from mlscope.people import People

_NATS_PORT, _MONITOR_PORT, _ROUTE_PORT = 4222, 8222, 6222
_LOG_FILES = 8
"""How many log files of a MiB a broker keeps: its health check looks for complaints in them."""
_FEWEST_BROKERS = 3
"""Two brokers stop as soon as one of them does: neither is a majority."""
_MOUNTED = "/etc/nats-keys"
"""Where a broker's container has the folder OUT/nats."""
_CERTIFICATE_FILE, _KEY_FILE = f"{_MOUNTED}/server.pem", f"{_MOUNTED}/server.key"
_PUBLIC_KEY = re.compile(r"U[A-Z2-7]{55}")
_EVERYBODY, _OWNER_ONLY = 0o444, 0o400
_RESTART = (
    "mlscope keys: the monitors of the brokers have a new secret path: restart each broker that "
    "runs, since it refuses to reload this configuration"
)


def keys(arguments: argparse.Namespace) -> int:
    """Write every missing secret, readable by its owner only."""
    out: Path = arguments.out
    owner: int | None = arguments.owner
    public = {name: _service_key(out / name, name, owner).public for name in PERMISSIONS}
    public |= _agent_keys(out, arguments.agent, owner)
    for secret in ("gateway/token", "database/password"):
        _set_owner(ensure_password(out / secret).path, owner, _OWNER_ONLY)
    for asker in [asker_in(text) for text in arguments.person]:
        ensure_person(out / "people", asker)
        for kind in ("json", "nk", "token"):
            _set_owner(out / "people" / f"{asker.name}.{kind}", owner, _OWNER_ONLY)
    people = People(out / "people").all()
    addresses = tuple(arguments.address)
    layouts = _layouts(out, arguments.broker, addresses, owner)
    confs = {out / "nats" / file_name: layout for file_name, layout in layouts.items()}
    if any(_has_other_path(conf, layout) for conf, layout in confs.items()):
        print(_RESTART, file=sys.stderr)
    for conf, layout in confs.items():
        # The broker is root in its container, where it reads `server.key` of this mode too.
        write_if_changed(conf, nats_conf(layout, public, people=people))
        if _is_published(layout):
            _prepare_admission(out, PublishedBroker(layout, public), owner)
    print(out)
    return exits.OK


def _layouts(
    out: Path, brokers: Sequence[str], addresses: Sequence[str], owner: int | None
) -> dict[str, NatsLayout]:
    """Return each broker's layout by the name of its configuration file.

    Several `brokers` get certificates, also for further `addresses`; so does a lone one that has
    addresses. Raises Misused for hosts that make no cluster of brokers.
    """
    alone = NatsLayout(
        store="/data",
        host="0.0.0.0",  # noqa: S104 (inside a container's own network)
        port=_NATS_PORT,
        monitor_host="127.0.0.1",
        monitor_port=_MONITOR_PORT,
        max_log_bytes=MIB,
        max_log_files=_LOG_FILES,
    )
    names = _broker_names(brokers) if brokers else ()
    hosts = (*brokers, *_addresses(out, addresses))
    monitor_path_file = out / "nats" / "monitor.path"
    if not hosts:
        # Only its own container reaches its monitor.
        monitor_path_file.unlink(missing_ok=True)
        return {"nats.conf": alone}
    _write_certificates(out, hosts, owner)
    # The monitor has no other lock: every user of a broker's machine reaches it, and where
    # admission asks it from another container, every container does.
    encrypted = replace(
        alone,
        monitor_path=ensure_password(monitor_path_file).value,
        certificate_file=_CERTIFICATE_FILE,
        key_file=_KEY_FILE,
    )
    if not brokers:
        return {"nats.conf": replace(encrypted, monitor_host=alone.host)}
    return {
        f"{name}.conf": replace(encrypted, routes=_routes(name, host, brokers))
        for name, host in zip(names, brokers, strict=True)
    }


def _is_published(layout: NatsLayout) -> bool:
    """Tell whether a broker is a lone one that other machines reach, over TLS."""
    return layout.routes is None and bool(layout.certificate_file)


def _has_other_path(conf: Path, layout: NatsLayout) -> bool:
    """Tell whether `conf`, of a broker of several, has another path of the monitor than `layout`.

    A broker that runs with it (nats-server 2.15) reloads nothing of the new configuration.
    """
    if layout.routes is None or not conf.exists():
        return False
    return f"http_base_path: /{layout.monitor_path}\n" not in conf.read_text("utf-8")


def _routes(name: str, host: str, brokers: Iterable[str]) -> Routes:
    """Return how the broker `name` on `host` reaches the others of `brokers`."""
    return Routes(
        server=name,
        listen=f"0.0.0.0:{_ROUTE_PORT}",
        peers=tuple(f"{peer}:{_ROUTE_PORT}" for peer in brokers if peer != host),
        certificate_file=_CERTIFICATE_FILE,
        key_file=_KEY_FILE,
        authority_file=f"{_MOUNTED}/authority.pem",
        advertised=f"{host}:{_NATS_PORT}",
    )


def _addresses(out: Path, more: Iterable[str]) -> tuple[str, ...]:
    """Return the names of brokers for clients elsewhere: those of earlier calls, and `more`.

    A certificate without the names of earlier calls would shut out clients that use these.
    """
    file = out / "tls" / "addresses"
    known = file.read_text("ascii").split() if file.exists() else []
    addresses = tuple(dict.fromkeys((*known, *more)))
    if addresses:
        write_secret(file, "\n".join(addresses))
    return addresses


def _broker_names(hosts: Sequence[str]) -> list[str]:
    """Return the name of each broker, the first label of its host. Raises Misused."""
    names = [host.partition(".")[0] for host in hosts]
    if len(hosts) < _FEWEST_BROKERS or len(set(names)) < len(names) or not all(names):
        raise Misused(
            f"--broker {', '.join(hosts)}: give it once for each of three or more brokers, whose "
            "hosts differ in their first label; one broker alone needs none"
        )
    return names


def _write_certificates(out: Path, hosts: Sequence[str], owner: int | None) -> None:
    """Make one certificate for all `hosts`; brokers get it with its key, clients its authority."""
    try:
        from cli.cluster.keys.certificates import ensure_certificate
    except ModuleNotFoundError as error:
        raise Misused(f"certificates need {error.name}: pip install 'mlscope[tls]'") from error
    certificate = ensure_certificate(out / "tls", *hosts)
    assert certificate.authority is not None
    for source in (certificate.certificate, certificate.key, certificate.authority):
        write_secret(out / "nats" / source.name, source.read_text("ascii"))
    authority = out / "authority" / certificate.authority.name
    write_secret(authority, certificate.authority.read_text("ascii"))
    _set_owner(authority, owner, _EVERYBODY)


def _prepare_admission(out: Path, broker: PublishedBroker, owner: int | None) -> None:
    """Write what the service that admits machines and people needs, and the pages' certificate."""
    operator_file = out / "admission" / "keys" / f"{OPERATOR}.nk"
    write_secret(operator_file, (out / OPERATOR / "seed.nk").read_text("ascii").strip())
    broker_file = out / "admission" / "broker.json"
    write_secret(broker_file, broker.text())
    for file in (operator_file, broker_file):
        _set_owner(file, owner, _OWNER_ONLY)
    for name in ("server.pem", "server.key"):
        certificate_file = out / "gateway" / name
        write_secret(certificate_file, (out / "tls" / name).read_text("ascii"))
        _set_owner(certificate_file, owner, _OWNER_ONLY)
    for folder in (out / "people", out / "broker"):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        if owner is not None:
            os.chown(folder, owner, owner)


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
