"""A SQL view for each analysis, with typed columns and comments."""

import hashlib
from collections.abc import Sequence

from mlscope.database.migrations import Migration
from services.analyzer.building.table import Analysis

_TYPES = {"int": "int8", "float": "float8", "text": "text", "bool": "bool"}


def view_of(analysis: Analysis) -> str:
    """Return SQL that replaces an analysis' view. It fails where a user's view depends on it."""
    name = f"analysis_{analysis.name}"
    record = ", ".join(f'"{column.name}" {_TYPES[column.type]}' for column in analysis.columns)
    lines = [
        f"DROP VIEW IF EXISTS {name};",
        f"CREATE VIEW {name} AS",
        "SELECT analysis_row.evaluation, analysis_row.ordinal, cells.*",
        f"FROM analysis_row, jsonb_to_record(analysis_row.cells) AS cells ({record})",
        f"WHERE analysis_row.name = '{analysis.name}';",
        f"COMMENT ON VIEW {name} IS {_quoted(f'{analysis.title}. {analysis.source}')};",
    ]
    for column in analysis.columns:
        unit = f" [{column.unit}]" if column.unit not in ("", "1") else ""
        comment = _quoted(f"{column.description}{unit}")
        lines.append(f'COMMENT ON COLUMN {name}."{column.name}" IS {comment};')
    return "\n".join(lines)


def migrations_of(analyses: Sequence[Analysis]) -> list[Migration]:
    """Return the views as one migration, named by a hash: a changed view is a new migration."""
    sql = "\n".join(view_of(analysis) for analysis in analyses)
    return [Migration(f"views-{hashlib.sha256(sql.encode()).hexdigest()[:12]}", sql)]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
