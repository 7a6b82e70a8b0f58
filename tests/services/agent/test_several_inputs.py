"""A model of two inputs and two outputs, from its file to its record."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from schemas.batch import OutputsPredicted, QueriesAnswered
from schemas.level import Level
from schemas.manifest import (
    Assets,
    DatasetManifest,
    FrameworkNeed,
    ModelManifest,
    Port,
    Step,
    Synthetic,
    SyntheticTensor,
)
from schemas.plan import Subject
from services.agent.worker.queries.pipeline import spans_per_query, steps_of
from tests.services.agent.builders import Kept, a_run, a_subject, an_order, carried_out, raw_port

pytestmark = pytest.mark.usefixtures("forked_workers")


def number(value: int) -> bytes:
    """Return a protobuf varint."""
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + number(high) if high else bytes([low])


def part(field: int, body: bytes | str) -> bytes:
    """Return a protobuf field of bytes."""
    whole = body.encode() if isinstance(body, str) else body
    return number(field << 3 | 2) + number(len(whole)) + whole


def tensor(name: str) -> bytes:
    """Return ONNX's description of a float32 tensor (batch, 4)."""
    shape = part(1, part(2, "N")) + part(1, number(1 << 3) + number(4))
    kind = part(1, number(1 << 3) + number(1) + part(2, shape))
    return part(1, name) + part(2, kind)


def sum_and_ratio() -> bytes:
    """Return an ONNX model: a + b, and a / b."""
    nodes = [
        part(1, part(1, "a") + part(1, "b") + part(2, output) + part(4, kind))
        for output, kind in (("sum", "Add"), ("ratio", "Div"))
    ]
    ends = [part(11, tensor(each)) for each in ("a", "b")]
    ends += [part(12, tensor(each)) for each in ("sum", "ratio")]
    graph = b"".join([*nodes, part(2, "g"), *ends])
    return number(1 << 3) + number(8) + part(7, graph) + part(8, number(2 << 3) + number(13))


def a_port(name: str, *operators: str, **more: Any) -> Port:
    steps = tuple(Step(operator=each) for each in operators)
    return raw_port(name, (-1, 4)).model_copy(update={"steps": steps, **more})


def a_subject_of_two(folder: Path, b: str = "uniform", *, allow_nan: bool = False) -> Subject:
    """Return a / b and a + b over synthetic samples; `b` is its distribution."""
    (folder / "models").mkdir(parents=True)
    (folder / "datasets").mkdir()
    body = sum_and_ratio()
    (folder / "models" / "two.onnx").write_bytes(body)
    model = ModelManifest(
        name="two",
        version="1.0.0",
        framework=FrameworkNeed(name="onnxruntime"),
        inputs=(a_port("a"), a_port("b")),
        outputs=(a_port("sum", "raw"), a_port("ratio", "softmax", "raw", allow_nan=allow_nan)),
        model=Assets(graph_path="two.onnx", checksum=hashlib.sha256(body).hexdigest()),
    )
    said = SyntheticTensor(shape=(4,), distribution=b, low=1.0, high=2.0)
    dataset = DatasetManifest(name="made", synthetic=Synthetic(samples=6, inputs={"b": said}))
    return a_subject().model_copy(update={"model": model, "dataset": dataset, "warmup": 0})


async def said_of(subject: Subject, folder: Path) -> Kept:
    order = an_order(subject, (a_run(queries=3),), batch_size=2)
    return await carried_out(order, folder, manifests=folder)


async def test_both_inputs_are_filled_and_both_outputs_answered(tmp_path: Path) -> None:
    subject = a_subject_of_two(tmp_path / "manifests")
    said = await said_of(subject, tmp_path / "manifests")
    expected = spans_per_query(steps_of(subject.model), 2, Level.MODEL)
    assert said.completed().tally.spans == 3 * expected == 3 * 5
    (outputs,) = said.of(OutputsPredicted)
    total, ratio = json.loads(outputs.texts[0])
    assert (total["output"], ratio["output"]) == ("sum", "ratio")
    assert abs(sum(ratio["values"]) - 1) < 1e-5


async def test_what_is_no_number_fails_its_query_and_the_next_run_is_right(tmp_path: Path) -> None:
    said = await said_of(a_subject_of_two(tmp_path / "bad", "zeros"), tmp_path / "bad")
    (answered,) = said.of(QueriesAnswered)
    assert answered.error_texts[0] == ("output ratio: 0 NaN and 8 infinite of 8 values (rows 0, 1)")
    assert said.completed().tally.failed_queries == 3
    good = await said_of(a_subject_of_two(tmp_path / "good"), tmp_path / "good")
    assert good.completed().tally.failed_queries == 0


async def test_an_output_may_be_allowed_to_be_no_number(tmp_path: Path) -> None:
    subject = a_subject_of_two(tmp_path / "manifests", "zeros", allow_nan=True)
    said = await said_of(subject, tmp_path / "manifests")
    assert said.completed().tally.failed_queries == 0
