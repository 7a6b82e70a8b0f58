"""A real export of Nsight Systems 2023.4: three queries of Python's `nvtx`, without a GPU.

Its rows are few and its names of the machine gone, its declarations are as they were written (by
`nsys export --type sqlite --lazy=false`).
"""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mlscope.importing.nsys import ranges as nsys_ranges
from mlscope.importing.nsys import tables as nsys_tables
from mlscope.importing.reading import read_foreign
from mlscope.importing.recording import Recording
from mlscope.tracing.copy_kinds import COPY_KINDS
from schemas.batch import SpanKind
from schemas.level import Level

FILE = Path(__file__).parent / "files" / "nsys_cpu.sqlite"
GLOBAL_TID = 281_677_242_838_808
"""The main thread's, of the export's one process."""


@pytest.fixture(scope="module")
def found() -> Recording:
    """Return the export as it is read."""
    return read_foreign(FILE)


def _asked(query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(FILE)) as base:
        return base.execute(query).fetchall()


def _levels(found: Recording) -> list[tuple[str, int]]:
    return list(found.spans.select("name", "level").iter_rows())


def test_queries_are_the_default_domains_ranges(found: Recording) -> None:
    assert found.roots.height == 3
    told = _levels(found)
    layered = [("query", 1), ("predict", 2), ("conv1", 3), ("fc", 3)]
    assert told == [*[*layered, ("miss", 1), ("look up", 1)] * 3, ("asynchronous", 1)]


def test_other_domains_are_named(found: Recording) -> None:
    spans = found.spans.drop_nulls("attributes").filter(pl.col("name") != "query")
    told = {name: json.loads(text) for name, text in spans.select("name", "attributes").rows()}
    assert told == {name: {"domain": "shop"} for name in ("miss", "look up", "asynchronous")}
    kinds = dict(found.spans.select("name", "kind").rows())
    assert (kinds["miss"], kinds["look up"]) == (SpanKind.MARKER, SpanKind.HOST)


def test_times_are_of_the_session(found: Recording) -> None:
    assert found.epoch_ns == 1_795_290_539_730_064_618 + 1_207_299_761
    assert found.roots["duration_ns"].to_list() == [2_646_459, 2_298_554, 2_725_165]
    assert (found.host, found.device, found.framework) == ("traced-host", "cpu", "imported")


def test_what_was_left_out_is_said(found: Recording) -> None:
    assert found.notes == (
        "left out: 1 range that was open when the trace ended",
        "not read: OSRT_API (10 rows)",
    )


@pytest.mark.parametrize("table", ["CUDNN_EVENTS", "CUBLAS_EVENTS"])
def test_calls_of_libraries_are_spans_of_theirs(tmp_path: Path, table: str) -> None:
    path = tmp_path / "report.sqlite"
    shutil.copy(FILE, path)
    call = f"INSERT INTO {table} VALUES (1207330000, 1207340000, 28, {GLOBAL_TID}, 900)"
    told = f"INSERT INTO {table} VALUES (100, 100, 33, {GLOBAL_TID}, 901)"
    with closing(sqlite3.connect(path)) as base:
        base.execute("INSERT INTO StringIds VALUES (900, 'cudnnConvolutionForward')")
        base.execute("INSERT INTO StringIds VALUES (901, 'cuDNN profiling started')")
        base.execute(call)
        base.execute(told)
        base.commit()
    (row,) = [row for row in _levels(read_foreign(path)) if row[0].startswith("cu")]
    assert row == ("cudnnConvolutionForward", Level.LIBRARY)


@pytest.mark.parametrize("table", [each for each in nsys_tables.COLUMNS if "GRAPH_T" not in each])
def test_columns_that_are_read_are_those_that_are_written(table: str) -> None:
    declared = {name for (name,) in _asked(f"SELECT name FROM pragma_table_info('{table}')")}
    assert set(nsys_tables.COLUMNS[table]) <= declared


def test_event_types_are_those_of_the_export() -> None:
    types = dict(_asked("SELECT name, id FROM ENUM_NSYS_EVENT_TYPE WHERE name LIKE 'Nvtx%'"))
    ours = (nsys_ranges.MARK, nsys_ranges.PUSHED, nsys_ranges.STARTED, nsys_ranges.DOMAIN)
    names = ("NvtxMark", "NvtxPushPopRange", "NvtxStartEndRange", "NvtxDomainCreate")
    assert ours == tuple(types[name] for name in names)


def test_copies_are_called_as_the_export_calls_them() -> None:
    told = _asked("SELECT name FROM ENUM_CUDA_MEMCPY_OPER ORDER BY id")
    names = [name.removeprefix("CUDA_MEMCPY_KIND_").replace("_", " ") for (name,) in told]
    assert [each.upper() for each in COPY_KINDS] == names
