"""`mlscope provision`: creates streams, durables, buckets and database tables."""

import argparse
import asyncio
import os

from cli import exits
from mlscope.logs import set_up_logging
from mlscope.settings import Settings


def provision(_: argparse.Namespace) -> int:
    """Create streams, durables and buckets, then the database's tables; may run repeatedly."""
    from mlscope.provision import provision as provision_bus
    from services.analyzer.store import migrate as migrate_analyzer
    from services.collector.store import migrate as migrate_collector

    settings = Settings.read(os.environ)
    set_up_logging("provision", settings.log_level, form=settings.log_format)
    asyncio.run(provision_bus(settings))
    conninfo = settings.database_conninfo()
    migrate_collector(conninfo)
    migrate_analyzer(conninfo)
    return exits.OK
