"""The role of reader.sql, in a database with a public evaluation, a private and an unknown one."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from schemas.evaluation import MeasuredRun
from schemas.values.identity import run_key
from services.analyzer.analysis import analyze
from services.analyzer.store import Store, migrate
from services.collector import store as collector
from services.collector.runs import run_row
from services.collector.saving import prepared_of
from tests.dashboards.reading import FOLDER
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_linked_trace,
    a_plan,
    a_trace,
    some_outputs,
    some_queries,
)

MEASURED = MeasuredRun(run="r0", attempt=1, end="completed", agent="a1")
EVALUATIONS = {"e1": True, "hidden": False, "unknown": None}
"""Whether everybody may see the evaluations that `fill` stores; None: that is not noted."""
KEYS = {run_key(name, "r0", 1): name for name in EVALUATIONS}


def script(session: psycopg.Connection[Any]) -> bytes:
    """Return reader.sql as psql sends it, with the role of `session` as the owner."""
    user = sql.Identifier(session.info.user).as_string(session)
    text = (FOLDER / "reader.sql").read_text()
    return text.replace(":'password'", "'secret'").replace(':"owner"', user).encode()


def fill(address: str) -> None:
    """Store a run of each of `EVALUATIONS`, and its tables, in a migrated database."""
    for name, is_visible in EVALUATIONS.items():
        own: dict[str, Any] = {"evaluation": name}
        with closing(collector.Store(address)) as rows:
            batches = (
                a_trace(count=1, **own),
                a_linked_trace(1, **own),
                some_queries(**own),
                some_outputs(**own),
            )
            rows.save([prepared_of(batch, REQUESTED_NS) for batch in batches])
            rows.end_run(run_row(a_completion(**own), a_plan().plan, REQUESTED_NS, "c0"))
            if is_visible is not None:
                rows.note_visibility({run_key(name, "r0", 1): (name, is_visible)})
        with closing(Store(address)) as store:
            store.write(name, analyze(store.read(name, [MEASURED])))


@contextmanager
def as_reader(address: str) -> Iterator[psycopg.Connection[Any]]:
    """Lend a session of the role in the database at `address`, where it is made for it."""
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute(script(owner))
        try:
            login = make_conninfo(address, user="mlscope_reader", password="secret")
            with psycopg.connect(login, autocommit=True) as session:
                yield session
        finally:
            owner.execute("DROP OWNED BY mlscope_reader")
            owner.execute("DROP ROLE mlscope_reader")


def migrated(address: str) -> None:
    """Make the tables of the collector and of the analyzer."""
    collector.migrate(address)
    migrate(address)
