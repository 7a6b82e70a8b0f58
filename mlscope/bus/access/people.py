"""The permissions of people, each within the NATS account of the person's key."""

from mlscope.bus.access.permissions import Permission
from mlscope.bus.access.rights import add_uploads, all_facts, inboxes, requests
from schemas.people import VERBS, Asker
from schemas.subjects import watch_subject


def person_key(person: str) -> str:
    """Return the name of the key, and of the NATS account, of a person."""
    return f"person-{person}"


def permission_of_person(person: Asker) -> Permission:
    """Return the permissions of a person within the account of the person's key alone.

    There the inbox is the one that every client uses. The names of live facts are free in it: who
    asks only for what the account imports hears that and nothing else.
    """
    may_ask = person.role != "viewer"
    return Permission(
        publish=(*requests(*VERBS[person.role]), *(add_uploads() if may_ask else ())),
        subscribe=(
            *inboxes("requester"),
            *all_facts("evaluation", "run", "analysis", "query"),
            watch_subject("*", "*"),
        ),
    )
