"""What can go wrong in what services share and has no package of its own."""


class UnsuitableDatabase(Exception):
    """The database cannot hold what mlscope stores."""


class WrongEncoding(UnsuitableDatabase):
    """The database does not keep text as Unicode: names would come back changed or as bytes."""

    def __init__(self, database: str, encoding: str) -> None:
        """Name the database and what its encoding is."""
        self.database, self.encoding = database, encoding
        super().__init__(
            f"database {database} has encoding {encoding}, mlscope needs UTF8; an encoding cannot "
            f"be changed, so make another one and point MLSCOPE_DATABASE_URL at it: {self.fix}"
        )

    @property
    def fix(self) -> str:
        """The SQL that makes a database which will do."""
        name = f"{self.database}_utf8".replace('"', '""')
        return f"CREATE DATABASE \"{name}\" ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0"
