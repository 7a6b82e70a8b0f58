"""The text of a nats-server's configuration file: accounts, users, permissions, limits."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlscope.bus.access.accounts import LOG, Crossing, account_of, crossing
from mlscope.bus.access.limits import MOST_TOKENS, KeyLimits, limits_of
from mlscope.bus.access.people import permission_of_person, person_key
from mlscope.bus.access.permissions import (
    Permission,
    permission_of,
)

if TYPE_CHECKING:
    from mlscope.people import Person
    from schemas.people import Asker

GIB = 1 << 30
MIB = 1 << 20
MAX_COMMAND_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True)
class Routes:
    """How a server of several reaches the others: its routes, authenticated by certificates.

    A server takes and makes routes over TLS alone, both sides showing a certificate that
    `authority_file` signed. Without `authority_file` anyone who reaches the address may join.
    """

    server: str
    """The server's name, its own among the servers of the cluster."""
    listen: str
    peers: tuple[str, ...]
    """The addresses (`host:port`) on which the other servers take routes."""
    certificate_file: str = ""
    key_file: str = ""
    authority_file: str = ""
    advertised: str = ""
    """The address (`host:port`) that clients are given; default: those of the machine."""


@dataclass(frozen=True, slots=True)
class NatsLayout:
    """Where a server listens, where it keeps its streams, and how large they may become."""

    store: str
    host: str
    port: int
    monitor_host: str
    monitor_port: int
    monitor_path: str = ""
    """What the paths of the monitor begin with, since it asks for no login: a secret."""
    certificate_file: str = ""
    """With `key_file`: the server takes connections over TLS alone, and shows this certificate."""
    key_file: str = ""
    max_file_store_bytes: int = 32 * GIB
    max_memory_store_bytes: int = 256 * MIB
    log_file: str = ""
    """The file that the server writes its log into; default: what its command says, else stderr."""
    max_log_bytes: int = 0
    """When a log file begins anew, 0 for never; as an option of the command it prevents reloads."""
    max_log_files: int = 0
    """How many log files there are, with that one; the oldest is removed. 0: all are kept."""
    routes: Routes | None = None
    """The routes of a server of several; None: it is the only one."""


def nats_conf(
    layout: NatsLayout,
    public_keys: Mapping[str, str],
    permission: Callable[[str], Permission] = permission_of,
    people: "Sequence[Person]" = (),
) -> str:
    """Return the configuration file's text for `layout`, with one user for each public key.

    `public_keys` maps names to nkeys; `people` have keys of their own. Raises `KeyError` for a name
    without a `permission`: no user is ever written without restrictions.
    """
    askers = {person_key(person.asker.name): person.asker for person in people}
    permissions = {name: permission(name) for name in public_keys}
    permissions |= {name: permission_of_person(asker) for name, asker in askers.items()}
    keys_of_people = {person_key(person.asker.name): person.public_key for person in people}
    public_keys = {**public_keys, **keys_of_people}
    crossed = crossing(permissions, askers)
    accounts = sorted({LOG, *map(account_of, public_keys)})
    account_texts = "\n".join(
        _account(account, _users(account, permissions, public_keys), crossed, askers.get(account))
        for account in accounts
    )
    monitor_path = f"http_base_path: /{layout.monitor_path}\n" if layout.monitor_path else ""
    # Facts above 512 KiB travel by object reference; a command (an inline manifest, a work order)
    # travels in one message.
    # Acknowledged means on disk: the server's own default syncs every two minutes.
    return f"""\
server_name: {json.dumps(layout.routes.server) if layout.routes else "mlscope"}
{_tls(layout)}\
listen: {json.dumps(f"{layout.host}:{layout.port}")}
http: {json.dumps(f"{layout.monitor_host}:{layout.monitor_port}")}
{monitor_path}\
{_log(layout)}\
max_payload: {MAX_COMMAND_BYTES}
max_sub_tokens: {MOST_TOKENS}
jetstream {{
  store_dir: {json.dumps(layout.store)}
  max_file_store: {layout.max_file_store_bytes}
  max_memory_store: {layout.max_memory_store_bytes}
  sync_interval: always
}}
{_routes(layout.routes)}\
accounts {{
{account_texts}
}}
"""


def _log(layout: NatsLayout) -> str:
    options = {
        "log_file": layout.log_file,
        "logfile_size_limit": layout.max_log_bytes,
        "logfile_max_num": layout.max_log_files,
    }
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items() if value)


def _tls(layout: NatsLayout) -> str:
    if not layout.certificate_file:
        return ""
    files = {"cert_file": layout.certificate_file, "key_file": layout.key_file, "timeout": 5}
    return f"tls: {json.dumps(files)}\n"


def _routes(routes: Routes | None) -> str:
    if routes is None:
        return ""
    files = {
        "cert_file": routes.certificate_file,
        "key_file": routes.key_file,
        "ca_file": routes.authority_file,
        "verify": True,
        "timeout": 5,
    }
    tls = f"  tls: {json.dumps(files)}\n" if routes.authority_file else ""
    advertised = f"client_advertise: {json.dumps(routes.advertised)}\n" if routes.advertised else ""
    return f"""\
{advertised}\
cluster {{
  name: mlscope
  listen: {json.dumps(routes.listen)}
  routes: {json.dumps([f"nats-route://{peer}" for peer in routes.peers])}
{tls}\
}}
"""


def _users(
    account: str, permissions: Mapping[str, Permission], public_keys: Mapping[str, str]
) -> str:
    return "\n".join(
        f"      # {name}\n"
        f"      {{ nkey: {public_keys[name]}, permissions: {{\n"
        f"        publish: {{ allow: {json.dumps(permission.publish)} }}\n"
        f"        subscribe: {{ allow: {json.dumps(permission.subscribe)} }}\n"
        f"      }} }}"
        for name, permission in permissions.items()
        if account_of(name) == account
    )


def _account(account: str, users: str, crossed: Crossing, asker: "Asker | None") -> str:
    jetstream = "    jetstream: enabled\n" if account == LOG else ""
    return (
        f"  {json.dumps(account)} {{\n{jetstream}{_limits(limits_of(account, asker))}"
        f"    users: [\n{users}\n    ]\n"
        f"    exports: [\n{_lines(_exports(account, crossed))}\n    ]\n"
        f"    imports: [\n{_lines(_imports(account, crossed))}\n    ]\n"
        f"  }}"
    )


def _limits(limits: KeyLimits | None) -> str:
    if limits is None:
        return ""
    fields = {"max_connections": limits.connections, "max_subscriptions": limits.subscriptions}
    if limits.payload_bytes is not None:
        fields["max_payload"] = limits.payload_bytes
    return f"    limits: {json.dumps(fields)}\n"


def _lines(entries: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(f"      {json.dumps(entry)}" for entry in entries)


def _exports(account: str, crossed: Crossing) -> list[dict[str, Any]]:
    """Return what `account` exports: one entry for a subject, with the accounts that may use it."""
    services: dict[tuple[str, str], list[str]] = {}
    for service in crossed.services:
        if service.provider == account:
            services.setdefault((service.subject, service.response_type), []).append(service.user)
    feeds: dict[str, list[str]] = {}
    for feed in crossed.feeds:
        if feed.provider == account:
            feeds.setdefault(feed.source, []).append(feed.user)
    return [
        *(
            {"service": subject, "response_type": response_type, "accounts": users}
            for (subject, response_type), users in services.items()
        ),
        *({"stream": source, "accounts": users} for source, users in feeds.items()),
    ]


def _imports(account: str, crossed: Crossing) -> list[dict[str, Any]]:
    services = (
        {
            "service": {"account": service.provider, "subject": service.subject},
            **({"to": service.asked_on} if service.asked_on else {}),
        }
        for service in crossed.services
        if service.user == account
    )
    feeds = (
        {"stream": {"account": feed.provider, "subject": feed.source}, "to": feed.subject}
        for feed in crossed.feeds
        if feed.user == account
    )
    return [*services, *feeds]
