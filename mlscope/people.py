"""The people of a cluster, as files of its data folder: one for each, readable by its user alone.

keys/people/NAME.json     role, limits, public key and page token: what broker and gateway read
keys/people/NAME.nk       seed of the person's key: hand it over
keys/people/NAME.token    the token for the pages: hand it over
keys/people/NAME.removing what was NAME.json, until the removal is recorded
"""

import json
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.people import ROLES, Asker
from schemas.values.identity import ALLOWED

_TICK_NS = 1_000_000_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Person:
    """One person: what the person may ask, and the two ways of proving to be that person."""

    asker: Asker
    #: the public half of the person's nkey
    public_key: str
    #: what logs the person in to the pages: a secret
    token: str = field(repr=False)
    #: when the person was added (epoch)
    since_s: float = 0.0

    def text(self) -> str:
        """Return the text of the person's file."""
        asker = self.asker
        fields = {
            "role": asker.role,
            "at_most": asker.at_most,
            "per_day": asker.per_day,
            "public_key": self.public_key,
            "token": self.token,
            "since_s": self.since_s,
        }
        return json.dumps(fields)


def people_folder(data: Path) -> Path:
    """Return the folder of the people's files in the folder `data` of a cluster."""
    return data / "keys" / "people"


class People:
    """The people in one folder, read again when a file of it was added, replaced or removed."""

    def __init__(self, folder: Path) -> None:
        """Read people from `folder`, which need not exist."""
        self._folder = folder
        self._read_ns = -1
        self._people: tuple[Person, ...] = ()

    def all(self) -> tuple[Person, ...]:
        """Return everybody, by name; a file that holds no person is left out, and logged."""
        try:
            changed_ns = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return ()
        if changed_ns != self._read_ns:
            read = map(_person_in, sorted(self._folder.glob("*.json")))
            self._people = tuple(person for person in read if person is not None)
            # Another change may come within the same tick of the file system's clock.
            is_settled = time.time_ns() - changed_ns > _TICK_NS
            self._read_ns = changed_ns if is_settled else -1
        return self._people


def _person_in(file: Path) -> Person | None:
    """Return the person in a `file`, None where it holds none."""
    try:
        fields: Mapping[str, Any] = json.loads(file.read_text("utf-8"))
        if not re.fullmatch(ALLOWED, file.stem):
            raise ValueError("the file's name is not a person's name")
        (role,) = [role for role in ROLES if role == fields["role"]]
        asker = Asker(file.stem, role, int(fields["at_most"]), int(fields["per_day"]))
        public_key, token = str(fields["public_key"]), str(fields["token"])
        if not token:
            raise ValueError("its token is empty: it identifies nobody")
        return Person(asker, public_key, token, float(fields["since_s"]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        _log.warning("%s holds no person: %s: %s", file, type(error).__name__, error)
        return None
