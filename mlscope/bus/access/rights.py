"""Rights, of which permissions are put together: each as the NATS subjects it needs. Pure."""

import re
from typing import Any

from mlscope.bus.inboxes import inbox_prefix
from mlscope.bus.streams import (
    ARTIFACTS,
    BATCHES,
    DURABLES,
    OBJECTS,
    SUSPECTS,
    UPLOADS,
    durable_named,
    managed,
    republished,
)
from schemas.dead import LetterBuried
from schemas.message import Fact
from schemas.subjects import REQUEST, ROOT, asked_by_people, retry_subject, subject_of

_ANY = "*"


def inboxes(*names: str) -> tuple[str, ...]:
    """Answer, or be answered, in the inboxes of the connections called `names`."""
    return tuple(f"{inbox_prefix(name)}.>" for name in names)


def requests(*verbs: str) -> tuple[str, ...]:
    """Make requests with one of `verbs`."""
    return tuple(f"{REQUEST}.{verb}" for verb in verbs)


def requests_of_all(*verbs: str) -> tuple[str, ...]:
    """Answer requests with one of `verbs` of the cluster's user and of people, or pass them on."""
    return (*requests(*verbs), *map(asked_by_people, verbs))


def all_facts(*entities: str) -> tuple[str, ...]:
    """Publish, or subscribe to, all facts about `entities`."""
    return tuple(f"{ROOT}.{entity}.>" for entity in entities)


def stored_facts(*entities: str) -> tuple[str, ...]:
    """Receive all facts about `entities` as the streams send them on."""
    return tuple(map(republished, all_facts(*entities)))


def fact_subject(fact: type[Fact], **fixed: str) -> str:
    """Publish one type of `fact`; tokens of its subject that are not in `fixed` are `*`."""
    names = {"evaluation", "run", "agent", "service", "person"} & set(fact.model_fields)
    identity: dict[str, Any] = {name: fixed.get(name, _ANY) for name in names}
    return subject_of(fact.model_construct(**identity))


def changes_of_keys(*buckets: str) -> tuple[str, ...]:
    """Receive the changes of keys in `buckets`, as these send them on."""
    return tuple(republished(f"$KV.{bucket}.>") for bucket in buckets)


def read_stream(*streams: str) -> tuple[str, ...]:
    """Read `streams` from a sequence on, in batches."""
    return tuple(f"$JS.API.DIRECT.GET.{stream}" for stream in streams)


def read_newest(stream: str, subject: str) -> str:
    """Read the newest message of a `stream` on a `subject`."""
    return f"$JS.API.DIRECT.GET.{stream}.{subject}"


def consume(durable: str) -> tuple[str, ...]:
    """Pull from a `durable` that the provisioner made, acknowledge, and note its suspects."""
    stream = durable_named(durable).stream
    suspects = f"$KV.{SUSPECTS}.{durable}.*"
    return (
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}",
        f"$JS.ACK.{stream}.{durable}.>",
        suspects,
        read_newest(f"KV_{SUSPECTS}", suspects),
    )


def read_progress(durable: str) -> str:
    """Read the state of a `durable`: what it has acknowledged."""
    return managed(f"CONSUMER.INFO.{durable_named(durable).stream}.{durable}")


def purge(*streams: str) -> tuple[str, ...]:
    """Remove messages from `streams`."""
    return tuple(managed(f"STREAM.PURGE.{stream}") for stream in streams)


def list_subjects(stream: str) -> str:
    """Read the state of a `stream`, and which subjects it holds."""
    return managed(f"STREAM.INFO.{stream}")


def descriptions_of(store: str, agent: str = "") -> str:
    """Write the descriptions of the large payloads of an `agent` in a `store`; '': of services."""
    return f"$O.{store}.M.{agent}.*" if agent else f"$O.{store}.M.*"


def fetch_payloads(*stores: str) -> tuple[str, ...]:
    """Read the large payloads in `stores`, whosever they are."""
    lookups = (read_newest(f"OBJ_{store}", f"$O.{store}.M.>") for store in stores)
    return (*lookups, *read_stream(*(f"OBJ_{store}" for store in stores)))


def store_decisions() -> tuple[str, ...]:
    """Write large decisions and manifests; who does so has `fetch_payloads` as well."""
    return (f"$O.{OBJECTS}.C.*", descriptions_of(OBJECTS))


def store_facts(agent: str) -> tuple[str, ...]:
    """Write the large facts of an `agent` that are no batches, and look for them."""
    return (
        f"$O.{OBJECTS}.C.{agent}.*",
        descriptions_of(OBJECTS, agent),
        look_for_payload(OBJECTS, agent),
    )


def store_batches(agent: str) -> tuple[str, ...]:
    """Write the large batches of an `agent`, and look for them.

    The subjects of the chunks hold the subject of the fact.
    """
    return (
        f"$O.{BATCHES}.C.*.*.*.*.{agent}.*",
        descriptions_of(BATCHES, agent),
        look_for_payload(BATCHES, agent),
    )


def read_artifacts() -> tuple[str, ...]:
    """Read and list the artifacts."""
    lookup = read_newest(f"OBJ_{ARTIFACTS}", descriptions_of(ARTIFACTS))
    return (lookup, *read_stream(f"OBJ_{ARTIFACTS}"))


def read_uploads() -> tuple[str, ...]:
    """Read the uploads of all keys."""
    lookup = read_newest(f"OBJ_{UPLOADS}", f"$O.{UPLOADS}.M.>")
    return (lookup, *read_stream(f"OBJ_{UPLOADS}"))


def add_uploads() -> tuple[str, ...]:
    """Write files of its own that stay for a day, and look for them, without removing any.

    These are the subjects within the account of a key; `upload_of` returns those in the stream.
    """
    return (f"$O.{UPLOADS}.C.*", descriptions_of(UPLOADS), look_for_payload(UPLOADS))


def upload_of(key: str, subject: str) -> str:
    """Return a `subject` of `add_uploads` as the stream has it: it names the `key` that writes."""
    return re.sub(rf"(\$O\.{UPLOADS}\.[CM])\.", rf"\1.{key}.", subject)


def look_for_payload(store: str, agent: str = "") -> str:
    """Check whether a large payload of an `agent` exists in a `store`; '': one of services."""
    return read_newest(f"OBJ_{store}", descriptions_of(store, agent))


def bury_letters(service: str) -> str:
    """Write the dead letters of a `service`."""
    return fact_subject(LetterBuried, service=service)


def handle_again(*durables: str) -> tuple[str, ...]:
    """Receive the operator's orders to handle messages of `durables` again."""
    return tuple(map(retry_subject, durables))


def settle_letters() -> tuple[str, ...]:
    """Read and remove dead letters, and have the messages of all durables handled again."""
    orders = handle_again(*(durable.name for durable in DURABLES))
    return (*read_stream("DEAD"), managed("STREAM.MSG.DELETE.DEAD"), *orders)


def ping(service: str, instance: str = _ANY) -> str:
    """Ask an `instance` of a `service` whether it answers, as its health check does."""
    return f"$SRV.PING.{service}.{instance}"


def read_figures(*services: str) -> tuple[str, ...]:
    """Ask every instance of `services` for its figures."""
    return tuple(f"$SRV.STATS.{service}" for service in services)


def check_health(service: str, inbox: str = "") -> tuple[str, ...]:
    """Ask instances of a `service` with its own key, and answer below its own `inbox`.

    The inbox is that of the name `service` unless given.
    """
    return ping(service), f"{health_inbox(inbox or service)}.*"


def health_inbox(name: str) -> str:
    """Return the subject below which the health check of the connection `name` is answered."""
    return f"{inbox_prefix(name)}.health"


def be_discovered(service: str) -> tuple[str, ...]:
    """Receive the questions of NATS service discovery: to all, to a `service`, to an instance."""
    return ("$SRV.*", f"$SRV.*.{service}", f"$SRV.*.{service}.*")
