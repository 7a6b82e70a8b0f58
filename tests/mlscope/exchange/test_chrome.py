"""Chrome's trace events: what is exported is imported as it was."""

import json
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings

from mlscope.exchange.chrome import write
from mlscope.exchange.traces import Trace
from services.agent.foreign.reading import read_foreign
from services.agent.foreign.recording import SPAN_SCHEMA
from tests.mlscope.exchange.traces import RUN, SMALL, TRACES


def _written(trace: Trace) -> bytes:
    file = BytesIO()
    write(trace, file)
    return file.getvalue()


@settings(deadline=None, max_examples=60)
@given(trace=TRACES.filter(lambda trace: len(trace.spans) > 0))
def test_what_was_exported_is_imported_the_same(trace: Trace) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(_written(trace))
        found = read_foreign(path)
    exported = [
        tuple(getattr(span, name) or None if name == "attributes" else getattr(span, name)
              for name in SPAN_SCHEMA)
        for span in trace.spans
    ]  # fmt: skip
    assert found.spans.rows() == exported
    assert (found.tool, found.framework, found.host) == ("mlscope", "pytorch", "gpu-1")
    assert found.epoch_ns == RUN.epoch_ns


def test_what_the_analyzer_found_is_not_imported_as_captured(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(_written(SMALL))
    parents = dict(read_foreign(path).spans.select("span", "parent").rows())
    assert (parents[2], parents[3], parents[5]) == (1, None, None)


def test_children_are_drawn_in_their_parents_and_kernels_on_their_device() -> None:
    events = json.loads(_written(SMALL))["traceEvents"]
    drawn = {each["name"]: each for each in events if each["ph"] == "X"}
    assert drawn["launch"]["ts"] + drawn["launch"]["dur"] == 0.12
    assert drawn["launch"]["args"]["duration_ns"] == 95
    assert (drawn["gemm"]["pid"], drawn["gemm"]["tid"]) == (3, 13)
    arrows = [(each["ph"], each["id"]) for each in events if each.get("cat") == "ac2g"]
    assert arrows == [("s", 7), ("f", 7)]
    (counter,) = [each for each in events if each["ph"] == "C"]
    assert counter["args"] == {"value": 1.5}
