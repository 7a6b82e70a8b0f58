"""`mlscope report`: writes an evaluation's report, the same as the gateway's page."""

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from mlscope.client import AsyncClient, ResultTables
from mlscope.settings import Settings
from schemas.analysis import Tables
from schemas.status import EvaluationStatus

if TYPE_CHECKING:
    from services.gateway.charts.drawing import Pictures


async def report(arguments: argparse.Namespace) -> int:
    """Write a report to an .html file, or with its tables to a .zip file."""
    suffix = arguments.out.suffix.lower()
    if suffix not in (".html", ".zip"):
        raise Misused(f"-o {arguments.out}: expected a file that ends in .html or .zip")
    async with client_of(arguments) as client:
        evaluation = await client.evaluation(arguments.evaluation)
        status = await analyzed(client, evaluation.id)
        tables = await evaluation.tables()
    content = await _content(status, tables, suffix, arguments.data)
    arguments.out.write_bytes(content)
    print(f"{arguments.out}: {len(tables)} tables, {len(content)} bytes")
    return exits.OK


async def analyzed(client: AsyncClient, evaluation: str) -> EvaluationStatus:
    """Return the status of an evaluation that has tables. Raises Misused if it has none yet."""
    status = await client.status(evaluation)
    if not status.tables:
        raise Misused(f"{status.evaluation} is {status.state}: a report needs its analyses")
    return status


@asynccontextmanager
async def drawing(data: str | None) -> AsyncIterator["Pictures"]:
    """Yield what draws a report's charts. Raises Misused where a report's packages are missing.

    Charts that were drawn are kept in the data folder, which is `data` or that of the settings, so
    that the next report need not draw them again; nothing is kept where there is no such folder.
    """
    folder = Path(data) if data else Settings.read(os.environ).data_folder
    try:
        from services.gateway.charts.drawing import Pictures

        pictures = Pictures(
            folder / "charts" if folder.is_dir() else None, pens=min(4, os.cpu_count() or 1)
        )
        try:
            yield pictures
        finally:
            await pictures.close()
    except ImportError as error:
        raise Misused(f"reports need pip install 'mlscope[services]': {error}") from None


async def _content(
    status: EvaluationStatus, tables: ResultTables, suffix: str, data: str | None
) -> bytes:
    every = Tables(
        evaluation=status.evaluation, tables=tuple(analysis.table for analysis in tables.values())
    )
    async with drawing(data) as pictures:
        from services.gateway.reports.document import archived, document_of

        if suffix == ".zip":
            return await archived(status, every, pictures)
        return (await document_of(status, every, pictures)).encode()
