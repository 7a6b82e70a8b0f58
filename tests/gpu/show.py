"""Tables of a recording as a user sees them: `python -m tests.gpu.show [RECORDING [TABLE...]]`.

Without a table each has a line; without a recording their names are printed. `recorded/README.md`
says what each holds.
"""

import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.survey.bundles import frames_of
from cli.printing.output import Rows, write_rows
from cli.printing.results import table_names, write_tables
from mlscope.client.brief import brief
from schemas.analysis import Table
from services.analyzer.analysis import analyze
from tests.gpu.recordings import bundle_names, recorded_bundle


def show(recording: str, names: Sequence[str]) -> None:
    """Print the tables of these names or numbers; without any, a line for each table."""
    with tempfile.TemporaryDirectory() as folder:
        tables = analyze(frames_of(recorded_bundle(recording, Path(folder)))).tables
    if not names:
        lines = [(table.id, table.name, len(table.rows), table.verdict) for table in tables]
        write_rows(Rows(("id", "table", "rows", "verdict"), tuple(lines)), "table")
        return
    chosen = [_table(tables, name) for name in table_names(names)]
    write_tables([brief(table) for table in chosen], "table")


def _table(tables: Sequence[Table], name: str) -> Table:
    for table in tables:
        if name in (table.id, table.name):
            return table
    sys.exit(f"no table is called {name}; they are {', '.join(table.name for table in tables)}")


def main(arguments: Sequence[str]) -> None:
    """Print what the command line asks for."""
    recording, *names = arguments or ("",)
    if recording in bundle_names():
        show(recording, names)
        return
    if recording:
        sys.exit(f"no recording is called {recording}; they are {', '.join(bundle_names())}")
    sys.stdout.write("\n".join([*bundle_names(), ""]))


if __name__ == "__main__":
    # `| head` ends it quietly.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(sys.argv[1:])
