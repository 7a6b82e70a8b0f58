"""The text of a nats-server's configuration file; pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlscope.bus.permissions import Permission, permission_of

GIB = 1 << 30
MIB = 1 << 20
MAX_COMMAND_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True)
class NatsLayout:
    """Where a server listens and keeps its streams."""

    store: str
    host: str
    port: int
    monitor_host: str
    monitor_port: int
    max_file_store_bytes: int = 32 * GIB
    max_memory_store_bytes: int = 256 * MIB


def _subjects(subjects: tuple[str, ...]) -> str:
    return "[" + ", ".join(json.dumps(subject) for subject in subjects) + "]"


def _user(name: str, public_key: str, permission: Permission) -> str:
    return (
        f"      # {name}\n"
        f"      {{ nkey: {public_key}, permissions: {{\n"
        f"        publish: {{ allow: {_subjects(permission.publish)} }}\n"
        f"        subscribe: {{ allow: {_subjects(permission.subscribe)} }}\n"
        f"      }} }}"
    )


def nats_conf(
    layout: NatsLayout,
    public_keys: Mapping[str, str],
    permission: Callable[[str], Permission] = permission_of,
) -> str:
    """Return the configuration for `layout`, with one user per name in `public_keys`.

    `public_keys` maps names to nkeys. A name without a `permission` is a `KeyError`: no user is
    ever written unrestricted.
    """
    users = "\n".join(_user(name, key, permission(name)) for name, key in public_keys.items())
    # Facts above 512 KiB travel by object; a command (an inline manifest, a work order) is whole.
    # Acknowledged means on disk: the server's own default syncs every two minutes.
    return f"""\
server_name: mlscope
listen: {json.dumps(f"{layout.host}:{layout.port}")}
http: {json.dumps(f"{layout.monitor_host}:{layout.monitor_port}")}
max_payload: {MAX_COMMAND_BYTES}
jetstream {{
  store_dir: {json.dumps(layout.store)}
  max_file_store: {layout.max_file_store_bytes}
  max_memory_store: {layout.max_memory_store_bytes}
  sync_interval: always
}}
accounts {{
  MLSCOPE {{
    jetstream: enabled
    users: [
{users}
    ]
  }}
}}
"""
