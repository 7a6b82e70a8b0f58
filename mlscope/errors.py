"""Errors of the shared modules that have no package of their own."""


class UnsuitableDatabase(Exception):
    """The database can't store mlscope's data."""


class TlsMissing(UnsuitableDatabase):
    """The database's server does not speak TLS, and its URL names another machine."""

    def __init__(self) -> None:
        """Say how to go on."""
        super().__init__(
            "the database's server does not speak TLS (ssl = on in postgresql.conf); on a "
            "private network, end MLSCOPE_DATABASE_URL with ?sslmode=disable"
        )


class WrongEncoding(UnsuitableDatabase):
    """The database does not store text as Unicode: names would be changed or returned as bytes."""

    def __init__(self, database: str, encoding: str) -> None:
        """Give the name of the database and its encoding."""
        self.database, self.encoding = database, encoding
        super().__init__(
            f"database {database} has encoding {encoding}, mlscope needs UTF8; an encoding cannot "
            f"be changed, so create another one and set MLSCOPE_DATABASE_URL to it: {self.fix}"
        )

    @property
    def fix(self) -> str:
        """The SQL that creates a suitable database."""
        name = f"{self.database}_utf8".replace('"', '""')
        return f"CREATE DATABASE \"{name}\" ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0"


class OwnViewInTheWay(UnsuitableDatabase):
    """A view that somebody made depends on what an update of the tables has to replace."""

    def __init__(self, dependents: str) -> None:
        """Name the views, in `dependents`, and the way out.

        `dependents` is PostgreSQL's lines about what depends on what, for each of some views: what
        depends on them in an order in which each follows all on which it depends.
        """
        # Of equal lines the last stays: it follows all on which that one depends.
        lines = "; ".join(reversed(dict.fromkeys(reversed(dependents.splitlines()))))
        super().__init__(
            f"views of your own are in the way of an update of the database: {lines}. For each of "
            "them that is yours (mlscope's own in the schema mlscope_reader have the names of its "
            "tables), keep what SELECT pg_get_viewdef('NAME'::regclass) prints (for a function, "
            "pg_get_functiondef('NAME'::regprocedure)). Then drop them, the last named first: DROP "
            "VIEW NAME (DROP MATERIALIZED VIEW or DROP FUNCTION where it is one). If the schema "
            "mlscope_reader has a view of the same name, drop that before it: mlscope makes it "
            "anew. This step changed nothing: run the command again afterwards, then create yours "
            "anew"
        )
