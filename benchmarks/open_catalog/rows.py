"""The lines of what was tried: one of JSON for each model, written as soon as it has ended."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """How a model ended: it answers, or the reason why it does not."""

    model: str
    framework: str
    answers: bool
    reason: str
    seconds: float
    #: the most memory of the host that its process held
    peak_bytes: int


def rows_in(path: Path) -> dict[str, Row]:
    """Return the last row of each model; a line that was cut off is ignored."""
    rows: dict[str, Row] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            row = Row(**json.loads(line))
        except (ValueError, TypeError):
            continue
        rows[row.model] = row
    return rows


def add_row(path: Path, row: Row) -> None:
    """Append a row to the lines."""
    with path.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(row)) + "\n")
