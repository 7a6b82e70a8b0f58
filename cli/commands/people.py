"""`mlscope people`: who may use a cluster, in which role and within which limits."""

import argparse
import datetime as dt
import re
from pathlib import Path

from cli import exits
from cli.cluster.keys.members import Members
from cli.cluster.keys.person_files import check_name, ensure_person
from cli.cluster.state import ClusterState, running_state
from cli.failures import Misused
from cli.inputs.connection import folder_of
from cli.inputs.operator import record_decision, record_deed, tell_broker
from cli.printing.output import Rows, write_rows
from mlscope.people import People, people_folder
from schemas.people import Asker, PersonAdded, PersonRemoved
from schemas.values.identity import ALLOWED

_ARTICLES = {"viewer": "a", "requester": "a", "owner": "an"}
_COLUMNS = ("name", "role", "at_most", "per_day", "since")


async def people(arguments: argparse.Namespace) -> int:
    """List the people, by name."""
    rows: list[tuple[object, ...]] = []
    for person in People(people_folder(folder_of(arguments.data))).all():
        asker = person.asker
        since = dt.datetime.fromtimestamp(person.since_s).astimezone().isoformat(" ", "seconds")
        rows.append((asker.name, asker.role, asker.at_most or None, asker.per_day or None, since))
    write_rows(Rows(_COLUMNS, tuple(rows)), arguments.output)
    return exits.OK


async def add(arguments: argparse.Namespace) -> int:
    """Let a person in, or change the role and limits of one who is in already.

    What cannot be recorded is not done. Raises NotUp, NotAnswering, and Misused for a name that
    nobody can have.
    """
    check_name(arguments.name)
    data = folder_of(arguments.data)
    state, folder = running_state(data), people_folder(data)
    if (folder / f"{arguments.name}.removing").exists():
        raise Misused(
            f"the removal of {arguments.name} was not recorded: run `mlscope people remove "
            f"{arguments.name}` again, then add the person"
        )
    asker = Asker(arguments.name, arguments.role, arguments.at_most, arguments.per_day)
    before = {person.asker.name: person for person in People(folder).all()}.get(asker.name)
    limits = {"at_most": asker.at_most, "per_day": asker.per_day}
    await record_decision(arguments, PersonAdded(person=asker.name, role=asker.role, **limits))
    ensure_person(folder, asker)
    if before is None or before.asker != asker:  # else the broker has nothing new to read
        tell_broker(Members(data), state)
    if before is None:
        print(_handed_over(asker, folder, state))
    else:
        print(f"{asker.name} is {_ARTICLES[asker.role]} {asker.role} now; key and token stay")
    return exits.OK


def _handed_over(asker: Asker, folder: Path, state: ClusterState) -> str:
    """Return what a new person needs: files of the people's `folder`, and the certificate."""
    certificate = state.authority_file
    role = f"{_ARTICLES[asker.role]} {asker.role}"
    lines = (
        f"{asker.name} is {role}; hand these over, then delete key and token here:",
        f"key for commands and programs (--seed-file): {folder / f'{asker.name}.nk'}",
        f"token for the pages at {state.gateway_url}: {folder / f'{asker.name}.token'}",
        certificate and f"certificate of the cluster (MLSCOPE_TLS_AUTHORITY_FILE): {certificate}",
    )
    return "\n  ".join(filter(None, lines))


async def remove(arguments: argparse.Namespace) -> int:
    """Take back a person's key and token: connections close, and logins end.

    A removal that fails half-way is repeated by the same command. Raises NotUp, NotRecorded, and
    Misused for a name of nobody.
    """
    data, name = folder_of(arguments.data), arguments.name
    state, folder = running_state(data), people_folder(data)
    begun = folder / f"{name}.removing"
    names = [person.asker.name for person in People(folder).all()]
    if name in names:
        (folder / f"{name}.json").replace(begun)
        tell_broker(Members(data), state)
    elif not re.fullmatch(ALLOWED, name) or not begun.exists():
        raise Misused(f"no person is named {name}; known people: {', '.join(names) or 'none'}")
    deed = f"the key and the token of {name} no longer work"
    await record_deed(arguments, PersonRemoved(person=name), deed)
    for file in (folder / f"{name}.nk", folder / f"{name}.token", begun):
        file.unlink(missing_ok=True)
    print(deed)
    return exits.OK
