"""Integers of an input that its manifest bounds, as the ids of a vocabulary."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.batch import QueriesAnswered
from schemas.manifest import (
    Assets,
    DatasetManifest,
    FrameworkNeed,
    ModelManifest,
    Port,
    Synthetic,
)
from schemas.plan import Subject
from services.agent.predictors import TensorPlace
from services.agent.worker.files.datasets import load_samples
from services.agent.worker.files.model_files import AssetFolder
from services.agent.worker.queries.fitting import with_ranges
from services.agent.worker.queries.pipeline import Pipeline, PortOperators
from services.agent.worker.queries.sample_steps import require_within
from tests.services.agent.builders import (
    MANIFESTS,
    Kept,
    a_run,
    a_subject,
    a_synthetic,
    an_order,
    carried_out,
)
from tests.services.agent.test_several_inputs import number, part

pytestmark = pytest.mark.usefixtures("forked_workers")
VOCABULARY = 50257
INT64 = 7
INT64_TYPE: dict[str, Any] = {"element_type": "int64"}
IDS: dict[str, Any] = {"type": "raw", "element_type": "int64", "shape": (-1, 4)}


def ids(name: str) -> bytes:
    """Return ONNX's description of an int64 tensor (batch, 4)."""
    shape = part(1, part(2, "N")) + part(1, number(1 << 3) + number(4))
    kind = part(1, number(1 << 3) + number(INT64) + part(2, shape))
    return part(1, name) + part(2, kind)


def same_ids() -> bytes:
    """Return an ONNX model of ids that answers with them."""
    node = part(1, part(1, "ids") + part(2, "same") + part(4, "Identity"))
    graph = node + part(2, "g") + part(11, ids("ids")) + part(12, ids("same"))
    return number(1 << 3) + number(8) + part(7, graph) + part(8, number(2 << 3) + number(13))


def a_subject_of(folder: Path, dataset: DatasetManifest) -> Subject:
    """Return the model of ids below a vocabulary's size, over a `dataset`."""
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "ids.onnx").write_bytes(body := same_ids())
    model = ModelManifest(
        name="ids",
        version="1.0.0",
        framework=FrameworkNeed(name="onnxruntime"),
        inputs=(Port(layer_name="ids", range=(0, VOCABULARY), **IDS),),
        outputs=(Port(layer_name="same", **IDS),),
        model=Assets(graph_path="ids.onnx", checksum=hashlib.sha256(body).hexdigest()),
    )
    return a_subject().model_copy(update={"model": model, "dataset": dataset, "warmup": 0})


async def run(subject: Subject, folder: Path, queries: int) -> Kept:
    order = an_order(subject, (a_run(queries=queries),), batch_size=1)
    return await carried_out(order, folder, manifests=folder)


async def test_an_id_outside_the_vocabulary_fails_its_sample_alone(tmp_path: Path) -> None:
    last = {"distribution": "uniform", "low": VOCABULARY - 1, "high": VOCABULARY + 1}
    dataset = DatasetManifest(name="made", synthetic=Synthetic(samples=40, **last))
    kept = await run(a_subject_of(tmp_path, dataset), tmp_path, queries=40)
    (answered,) = kept.of(QueriesAnswered)
    reasons = [reason for reason in answered.error_texts if reason]
    assert all("input ids has 50257; its range is 0 to 50256" in reason for reason in reasons)
    assert 0 < kept.completed().tally.failed_queries < 40


async def test_synthetic_ids_are_drawn_from_the_whole_range(tmp_path: Path) -> None:
    dataset = DatasetManifest(name="made", synthetic=Synthetic(samples=8))
    kept = await run(a_subject_of(tmp_path, dataset), tmp_path, queries=8)
    assert kept.completed().tally.failed_queries == 0


@pytest.mark.parametrize(("declared", "low"), [({}, 3), ({"low": 20_000.0}, 20_000)])
def test_undeclared_ids_are_drawn_from_the_whole_range(declared: dict[str, Any], low: int) -> None:
    port = PortOperators("ids", limits=(3, VOCABULARY))
    dataset = with_ranges(a_synthetic((), samples=50, **declared), Pipeline(before=(port,)))
    place = TensorPlace("ids", (100,), "int64")
    drawn = np.asarray(load_samples(dataset, AssetFolder(MANIFESTS, "datasets"), [place]))
    assert drawn.min() >= low
    assert VOCABULARY / 2 < drawn.max() < VOCABULARY


def test_numbers_beyond_24_bits_stay_below_their_bound() -> None:
    dataset = a_synthetic((2000,), distribution="uniform", low=2**25, high=2**25 + 3, **INT64_TYPE)
    drawn = np.unique(load_samples(dataset, AssetFolder(MANIFESTS, "datasets")))
    assert drawn.tolist() == [2**25, 2**25 + 1, 2**25 + 2]


@pytest.mark.parametrize("more", [{"distribution": "zeros"}, {"high": 9.0}])
def test_declared_numbers_stay_as_they_are(more: dict[str, Any]) -> None:
    port = PortOperators("ids", limits=(3, VOCABULARY))
    dataset = a_synthetic((), **more)
    assert with_ranges(dataset, Pipeline(before=(port,))) == dataset


@pytest.mark.parametrize("sample", [[-1], [float("nan")], [5]])
def test_what_lies_outside_is_named(sample: list[float]) -> None:
    with pytest.raises(ValueError, match=r"the input has .*; its range is 0 to 4"):
        require_within(np.array(sample), (0, 5), "")


def test_limits_and_empty_samples_are_within() -> None:
    require_within(np.array([0, 4]), (0, 5), "ids")
    require_within(np.zeros(0, np.int64), (0, 5), "ids")
