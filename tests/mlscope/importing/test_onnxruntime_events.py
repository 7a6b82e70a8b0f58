"""ONNX Runtime's profiles of models with loops and branches."""

import json
from pathlib import Path

import numpy as np
import onnxruntime as ort
import polars as pl

from mlscope.importing.onnxruntime.events import bodies_note
from mlscope.importing.reading import read_foreign
from mlscope.importing.recording import Recording
from schemas.level import Level
from tests.services.agent.predictors.onnx_nets import branched, looped


def profiled(folder: Path, body: bytes) -> Recording:
    """Return the recording of a profile of two runs."""
    settings = ort.SessionOptions()
    settings.enable_profiling = True
    settings.profile_file_prefix = str(folder / "profile")
    settings.intra_op_num_threads = 1
    session = ort.InferenceSession(body, settings, providers=["CPUExecutionProvider"])
    for _ in range(2):
        session.run(None, {"x": np.ones((1, 64), np.float32)})
    return read_foreign(Path(session.end_profiling()))


def layers_in(found: Recording) -> pl.DataFrame:
    """Return the layers of a recording."""
    return found.spans.filter(pl.col("level") == int(Level.FRAMEWORK))


def test_a_loop_of_a_profile_is_one_layer(tmp_path: Path) -> None:
    found = profiled(tmp_path, looped(20))
    layers = layers_in(found)
    assert layers["name"].to_list() == ["pre", "loop"] * 2
    assert layers["duration_ns"].sum() <= found.roots["duration_ns"].sum()
    assert found.notes == (bodies_note(["Loop"]),)


def test_nodes_of_a_taken_branch_have_places_of_their_own(tmp_path: Path) -> None:
    found = profiled(tmp_path, branched())
    layers = layers_in(found)
    assert layers["name"].to_list() == ["sum", "is_any", "then"] * 2
    told = [json.loads(text) for text in layers["attributes"]]
    assert [each["index"] for each in told] == [0, 1, 2] * 2
    assert {each["memory_kind"] for each in told} == {"measured"}
    assert found.notes == ()
