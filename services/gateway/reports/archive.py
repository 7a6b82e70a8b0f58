"""The report as a zip archive: the document, every table, and each chart's specification."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

from schemas.analysis import Tables
from services.gateway.table_files import file_content

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive, so that equal reports are equal archives."""


def archive_of(tables: Tables, document: str, specs: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the archive of a report.

    `tables`: all tables of the evaluation; `document`: the report as HTML; `specs`: the
    specifications of charts by table. `manifest.json` has the hash and size of each file.
    """
    files: dict[str, bytes] = {"report.html": document.encode()}
    for table in tables.tables:
        for suffix in ("parquet", "csv"):
            content = file_content(table, suffix)
            encoded = content.encode() if isinstance(content, str) else content
            files[f"tables/{table.name}.{suffix}"] = encoded
    for name, spec in specs.items():
        files[f"specs/{name}.vl.json"] = json.dumps(spec, indent=1).encode()
    manifest = {
        "evaluation": tables.evaluation,
        "files": {
            path: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            for path, content in files.items()
        },
    }
    files["manifest.json"] = json.dumps(manifest, indent=1).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()
