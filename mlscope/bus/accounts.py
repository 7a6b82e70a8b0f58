"""The accounts of a NATS server: which connections share subjects, and what crosses. Pure.

A NATS server checks which subjects a connection publishes on, but not which reply subjects it
names: JetStream's answers go there with JetStream's own rights. In one account, a client that may
read a payload could have it answered onto the subject of any fact, or onto JetStream's API. So the
services that keep the log have an account of their own (`LOG`), and every other connection has one
for its key alone. What crosses is what the table of permissions grants, and nothing else:

- A subject that an outsider may publish on is a service that the log's account exports to it. The
  server replaces the reply subject by one of its own (`_R_...`) in the log's account, and the
  answer reaches the reply subject that was named in the outsider's account only.
- A fact that an outsider may hear is exported as the stream republished it (`REPUBLISHED`), after
  it was stored.
- A command of a person arrives on a subject that says whose it is: the account of the person's key
  imports that subject under the plain name of the command, and nothing else. Owners hear facts like
  requesters; what others may see differs from evaluation to evaluation, so they hear none.
- Commands to agents, and the questions of service discovery, are services of the agents' accounts.

Accounts: https://docs.nats.io/running-a-nats-service/configuration/securing_nats/accounts
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mlscope.bus.inboxes import ANSWERS, is_inbox
from mlscope.bus.permissions import CURATOR, OPERATOR, Permission
from mlscope.bus.rights import ping
from mlscope.bus.streams import republished
from schemas.people import Asker
from schemas.subjects import REQUEST, asked_subject

LOG = "MLSCOPE"
"""The account of the streams and of the services that keep them."""

INSIDE = frozenset(
    {"registry", "scheduler", "collector", "analyzer", "gateway", CURATOR, OPERATOR, "provisioner"}
)
"""The connections in the log's account: the services, and the keys of who runs the cluster.

JetStream takes the requests that change a stream (the curator's, to purge) from its own account
alone.
"""

_DISCOVERY = "$SRV."
_READ_BATCH = "$JS.API.DIRECT.GET."


@dataclass(frozen=True, slots=True)
class Service:
    """Requests on `subject` that the account `provider` answers for the account `user`."""

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
        return "Stream" if is_batch or self.subject.startswith(_DISCOVERY) else "Singleton"


@dataclass(frozen=True, slots=True)
class Feed:
    """Messages of the log's account on `source`, which the account `user` hears on `subject`."""

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
            # An agent asks itself whether it answers, within its own account.
            if subject != ANSWERS and subject != ping("agent") and not is_inbox(subject)
        ]
        for subject in permission.subscribe:
            if subject.startswith((f"{REQUEST}.", _DISCOVERY)):
                services.append(Service(name, LOG, subject))
            elif not is_inbox(subject) and (name not in people or people[name].is_owner):
                feeds.append(Feed(name, republished(subject), subject))
    return Crossing(tuple(services), tuple(feeds))


def _service_of(user: str, subject: str, person: Asker | None) -> Service:
    """Return the service by which a `user` publishes on `subject`; a `person` is named in it."""
    if person is None or not subject.startswith(f"{REQUEST}."):
        return Service(LOG, user, subject)
    verb = subject.removeprefix(f"{REQUEST}.")
    return Service(LOG, user, asked_subject(person, verb), asked_on=subject)
