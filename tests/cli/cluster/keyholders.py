"""A server that knows every kind of key: services, an agent, an invited machine, and people."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from cli.cluster.keys.secret_files import ensure_key
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.access.people import permission_of_person, person_key
from mlscope.bus.access.permissions import (
    PERMISSIONS,
    Permission,
    agent_key,
    invitation_key,
    permission_of,
)
from mlscope.bus.inboxes import inbox_prefix
from mlscope.people import Person, people_folder
from schemas.people import Asker

AGENT, INVITED = "a1", "i1"
PEOPLE = tuple(Asker(role[0] + "p", role) for role in ("viewer", "requester", "owner"))
"""One person of each role: `vp`, `rp` and `op`."""
NAMES = (*PERMISSIONS, agent_key(AGENT), invitation_key(INVITED))
KEYS: Mapping[str, Permission] = {name: permission_of(name) for name in NAMES} | {
    person_key(asker.name): permission_of_person(asker) for asker in PEOPLE
}
"""What each key may do, by its name."""


def inbox_of(key: str) -> str:
    """Return the inbox prefix of a `key`; those of people are as every client's."""
    return inbox_prefix("requester" if key.startswith("person-") else key)


def admit_people(folder: Path) -> None:
    """Add `PEOPLE` to the cluster in `folder`."""
    for asker in PEOPLE:
        public = ensure_key(people_folder(folder), asker.name).public
        person = Person(asker, public, f"token of {asker.name}", time.time())
        (people_folder(folder) / f"{asker.name}.json").write_text(person.text())


def key_file(folder: Path, key: str) -> Path:
    """Return the file with the seed of a `key` of the cluster in `folder`."""
    if key.startswith("person-"):
        return people_folder(folder) / f"{key.removeprefix('person-')}.nk"
    return folder / "keys" / f"{key}.nk"


async def client_of(folder: Path, url: str, key: str, **options: Any) -> Client:
    """Connect with a `key` of the cluster in `folder`, whose server has this `url`.

    `options` are those of `Client.connect`. Without an `error_cb`, refusals of the server are
    expected, and nobody hears of them.
    """

    async def ignore(_: Exception) -> None:
        return None

    options.setdefault("error_cb", ignore)
    client = Client()
    seed_file = str(key_file(folder, key))
    inbox_prefix = inbox_of(key).encode()
    await client.connect(url, nkeys_seed=seed_file, inbox_prefix=inbox_prefix, **options)
    return client


@contextmanager
def served(folder: Path) -> Iterator[NatsServer]:
    """Run a server on `folder` that knows all of `KEYS`."""
    admit_people(folder)
    with NatsServer(folder, names=NAMES) as server:
        yield server
