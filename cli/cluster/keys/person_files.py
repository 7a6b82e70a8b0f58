"""The files of people (`mlscope.people`), as an operator makes them."""

import re
import secrets
import time
from dataclasses import replace
from pathlib import Path

from cli.cluster.keys.secret_files import ensure_key, write_secret
from cli.failures import Misused
from mlscope.people import People, Person
from schemas.people import ROLES, Asker
from schemas.values.identity import ALLOWED

_EXAMPLES = "NAME:ROLE[:AT_MOST[:PER_DAY]], as alice:viewer or bob:requester:3:20"


def check_name(name: str) -> None:
    """Raise Misused for a `name` that no person can have."""
    if not re.fullmatch(ALLOWED, name):
        raise Misused(f"{name!r}: not a person's name; allowed: 1 to 64 of A-Z a-z 0-9 _ -")


def ensure_person(folder: Path, asker: Asker) -> Person:
    """Write the files of a person into `folder`; key and token of one who is in there stay."""
    person = next((own for own in People(folder).all() if own.asker.name == asker.name), None)
    if person is None:
        public_key, token = ensure_key(folder, asker.name).public, secrets.token_urlsafe(32)
        write_secret(folder / f"{asker.name}.token", token)
        person = Person(asker, public_key, token, time.time())
    person = replace(person, asker=asker)
    write_secret(folder / f"{asker.name}.json", person.text())
    return person


def asker_in(text: str) -> Asker:
    """Return the person that `NAME:ROLE[:AT_MOST[:PER_DAY]]` describes. Raises Misused."""
    name, _, terms = text.partition(":")
    check_name(name)
    role_text, *limits = terms.split(":")
    role = next((own for own in ROLES if own == role_text), None)
    if role is None or len(limits) > 2 or not all(limit.isdecimal() for limit in limits):
        raise Misused(f"--person {text}: write {_EXAMPLES}; roles: {', '.join(ROLES)}")
    return Asker(name, role, *map(int, limits))
