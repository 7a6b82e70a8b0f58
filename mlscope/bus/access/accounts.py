"""The accounts of a NATS server: which connections share subjects, and what crosses. Pure.

A NATS server checks which subjects a connection publishes on, but not which reply subjects it
names: JetStream's answers go there with JetStream's own rights. In one account, a client that may
read a payload could have it answered onto the subject of any fact, or onto JetStream's API. So the
streams have an account of their own (`LOG`), and every connection but the provisioner's has one
for its key alone. What crosses is what the table of permissions grants, and nothing else:

- A subject that a key may publish on is a service that the log's account exports to it. The
  server replaces the reply subject by one of its own (`_R_...`) in the log's account, and the
  answer reaches the reply subject that was named in the key's account only.
- Requests about streams have other names outside (`MANAGED`): `$JS.API` is each account's own.
- What a service answers (commands, questions of service discovery, orders) is a service that its
  account exports to the log's account: a command crosses from account to account by way of it.
- A fact that a key may receive is exported as the stream republished it (`REPUBLISHED`), after it
  was stored. The server exports no message that came as a request: what no stream republishes
  (live events, spans on their way into the log) crosses from the publisher's account itself.
- An upload is stored under the name of the key that sends it: the account of the key imports the
  subjects with that name, as those without, and no others. So nobody else replaces it.
- A command of a person arrives on a subject that says whose it is: the account of the person's key
  imports that subject under the plain name of the command, and nothing else. Owners hear facts like
  requesters; what others may see differs from evaluation to evaluation, so they hear none.

Accounts: https://docs.nats.io/running-a-nats-service/configuration/securing_nats/accounts
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mlscope.bus.access.permissions import Permission
from mlscope.bus.access.rights import add_uploads, upload_of
from mlscope.bus.inboxes import is_inbox
from mlscope.bus.streams import JETSTREAM, MANAGED, REPUBLISHED, overlap, republished
from schemas.people import Asker
from schemas.subjects import ASKED, REQUEST, RESOURCES, ROOT, WATCHED, asked_subject

LOG = "MLSCOPE"
"""The account of the streams."""

INSIDE = frozenset({"provisioner"})
"""The connections in the log's account: only the one that makes and restores streams."""

_DISCOVERY = "$SRV."
_READ_BATCH = f"{JETSTREAM}.DIRECT.GET."
_LIVE = (f"{ROOT}.{RESOURCES}.", f"{ROOT}.{WATCHED}.")
"""How subjects begin whose messages are neither stored nor answered."""
_PULL = f"{JETSTREAM}.CONSUMER.MSG.NEXT."


@dataclass(frozen=True, slots=True)
class Service:
    """Requests on `subject` that the account `provider` takes from the account `user`."""

    provider: str
    user: str
    subject: str
    #: the subject on which the user asks, '' for the same
    asked_on: str = ""

    @property
    def response_type(self) -> str:
        """How many answers a request has: `Singleton` or `Stream`.

        Only a singleton tells a requester at once that nobody answers.
        """
        # A name of a stream holds no dot; what follows one asks for the newest message alone.
        is_batch = self.subject.startswith(_READ_BATCH) and "." not in self.subject.removeprefix(
            _READ_BATCH
        )
        has_many = is_batch or self.subject.startswith((_DISCOVERY, _PULL))
        return "Stream" if has_many else "Singleton"


@dataclass(frozen=True, slots=True)
class Feed:
    """Messages of the account `provider` on `source`, heard by the account `user` on `subject`."""

    provider: str
    user: str
    source: str
    subject: str


@dataclass(frozen=True, slots=True)
class Crossing:
    """Everything that crosses between accounts."""

    services: tuple[Service, ...]
    feeds: tuple[Feed, ...]


def account_of(name: str) -> str:
    """Return the account of the connection `name`: the log's, or one that has its name."""
    return LOG if name in INSIDE else name


def crossing(
    permissions: Mapping[str, Permission], people: Mapping[str, Asker] | None = None
) -> Crossing:
    """Return what crosses between the accounts of connections with these `permissions`, by name.

    `people` are those of them that belong to people, by name.
    """
    people = people or {}
    services: list[Service] = []
    feeds: list[Feed] = []
    for name, permission in permissions.items():
        if name in INSIDE:
            continue
        services += [
            _service_of(name, subject, people.get(name))
            for subject in permission.publish
            if not (is_inbox(subject) or subject.startswith(_LIVE) or _is_of_itself(name, subject))
        ]
        for subject in permission.subscribe:
            if subject.startswith((f"{REQUEST}.", f"{ASKED}.", _DISCOVERY)):
                services.append(Service(name, LOG, subject))
            elif not is_inbox(subject) and (name not in people or people[name].is_owner):
                feeds += _feeds(name, subject, permissions)
    return Crossing(tuple(services), tuple(feeds))


def _service_of(user: str, subject: str, person: Asker | None) -> Service:
    """Return the service by which a `user` publishes on `subject`; a `person` is named in it."""
    if subject.startswith(f"{MANAGED}."):
        request = subject.removeprefix(MANAGED)
        return Service(LOG, user, f"{JETSTREAM}{request}", asked_on=subject)
    if subject in add_uploads():
        return Service(LOG, user, upload_of(user, subject), asked_on=subject)
    if person is None or not subject.startswith(f"{REQUEST}."):
        return Service(LOG, user, subject)
    verb = subject.removeprefix(f"{REQUEST}.")
    return Service(LOG, user, asked_subject(person, verb), asked_on=subject)


def _feeds(user: str, subject: str, permissions: Mapping[str, Permission]) -> list[Feed]:
    """Return the feeds by which a `user` hears what there is on a `subject`."""
    if subject.startswith(f"{REPUBLISHED}."):
        return [Feed(LOG, user, subject, subject)]
    if (source := republished(subject)) != subject:
        return [Feed(LOG, user, source, subject)]
    return [
        Feed(name, user, subject, subject)
        for name, permission in permissions.items()
        if name not in INSIDE and any(overlap(subject, right) for right in permission.publish)
    ]


def _is_of_itself(name: str, subject: str) -> bool:
    """Tell whether a service asks itself, as its health check does, within its own account."""
    service = name.partition("-")[0]
    return subject.startswith(_DISCOVERY) and subject.split(".")[2:3] == [service]
