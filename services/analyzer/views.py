"""A view for each analysis, so that SQL users select typed, described columns."""

import hashlib
from collections.abc import Sequence

from mlscope.migrations import Migration
from schemas.analysis import Column
from services.analyzer.tables.table import Analysis

_TYPES = {"int": "int8", "float": "float8", "text": "text", "bool": "bool"}


def view_of(analysis: Analysis) -> str:
    """Return SQL that makes an analysis' view anew. It fails where a user's view needs the old."""
    name = f"analysis_{analysis.name}"
    record = ", ".join(f'"{each.name}" {_TYPES[each.type]}' for each in analysis.columns)
    lines = [
        f"DROP VIEW IF EXISTS {name};",
        f"CREATE VIEW {name} AS",
        "SELECT analysis_row.evaluation, analysis_row.ordinal, cells.*",
        f"FROM analysis_row, jsonb_to_record(analysis_row.cells) AS cells ({record})",
        f"WHERE analysis_row.name = '{analysis.name}';",
        f"COMMENT ON VIEW {name} IS {_quoted(f'{analysis.title}. {analysis.source}')};",
    ]
    lines += [
        f'COMMENT ON COLUMN {name}."{each.name}" IS {_quoted(_described(each))};'
        for each in analysis.columns
    ]
    return "\n".join(lines)


def migrations_of(analyses: Sequence[Analysis]) -> list[Migration]:
    """Return the views as one migration a wording: a changed table is a new one."""
    sql = "\n".join(view_of(analysis) for analysis in analyses)
    return [Migration(f"views-{hashlib.sha256(sql.encode()).hexdigest()[:12]}", sql)]


def _described(column: Column) -> str:
    unit = f" [{column.unit}]" if column.unit not in ("", "1") else ""
    return f"{column.description}{unit}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
