"""`mlscope provision`: creates streams, durables, buckets and database tables."""

import argparse
import asyncio
import os

from cli import exits
from mlscope.errors import UnsuitableDatabase
from mlscope.logs import set_up_logging
from mlscope.settings import Settings


def provision(_: argparse.Namespace) -> int:
    """Create streams, durables and buckets, then the database's tables; may run repeatedly.

    Raises UnsuitableDatabase.
    """
    import psycopg

    from mlscope.provision import provision as provision_bus
    from services.analyzer.store import migrate as migrate_analyzer
    from services.collector.store import migrate as migrate_collector

    settings = Settings.read(os.environ)
    set_up_logging("provision", settings.log_level, form=settings.log_format)
    asyncio.run(provision_bus(settings))
    conninfo = settings.database_conninfo()
    try:
        migrate_collector(conninfo)
        migrate_analyzer(conninfo)
    except psycopg.OperationalError as error:
        reason = str(error).partition("\n")[0]
        raise UnsuitableDatabase(f"the database of MLSCOPE_DATABASE_URL: {reason}") from error
    return exits.OK
