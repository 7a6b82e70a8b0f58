"""`mlscope report`: writes an evaluation's report, the same as the gateway's page."""

import argparse
import os
from pathlib import Path

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from mlscope.client import ResultTables
from mlscope.settings import Settings
from schemas.analysis import Tables
from schemas.status import EvaluationStatus


async def report(arguments: argparse.Namespace) -> int:
    """Write a report to an .html file, or with its tables to a .zip file."""
    suffix = arguments.out.suffix.lower()
    if suffix not in (".html", ".zip"):
        raise Misused(f"-o {arguments.out}: expected a file that ends in .html or .zip")
    async with client_of(arguments) as client:
        evaluation = await client.evaluation(arguments.evaluation)
        status = await evaluation.status()
        if not status.tables:
            raise Misused(f"{status.evaluation} is {status.state}: a report needs its analyses")
        tables = await evaluation.tables()
    content = await _content(status, tables, suffix, charts_folder(arguments.data))
    arguments.out.write_bytes(content)
    print(f"{arguments.out}: {len(tables)} tables, {len(content)} bytes")
    return exits.OK


def charts_folder(data: str | None) -> Path | None:
    """Return the folder of charts that were drawn, which the next report need not draw again.

    `data` is the data folder that the arguments name; None without one on this machine.
    """
    folder = Path(data) if data else Settings.read(os.environ).data_folder
    return folder / "charts" if folder.is_dir() else None


async def _content(
    status: EvaluationStatus, tables: ResultTables, suffix: str, folder: Path | None
) -> bytes:
    try:
        from services.gateway.charts.drawing import Pictures
        from services.gateway.reports.document import archived, document_of
    except ImportError as error:
        raise Misused(f"reports need pip install 'mlscope[services]': {error}") from None
    every = Tables(
        evaluation=status.evaluation, tables=tuple(analysis.table for analysis in tables.values())
    )
    pictures = Pictures(folder, pens=min(4, os.cpu_count() or 1))
    try:
        if suffix == ".zip":
            return await archived(status, every, pictures)
        return (await document_of(status, every, pictures)).encode()
    finally:
        await pictures.close()
