"""The logs of cuBLAS, cuBLASLt and cuDNN, recorded on an H200: a small PyTorch model's one call."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.level import Level
from services.agent.collectors import CollectedSpan, CollectorRequest
from services.agent.collectors.cudalibs import collector as cudalibs
from services.agent.collectors.cudalibs.log import Message, spans_of
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.predictors import Opened
from tests.gpu.recordings import recorded


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return [Message(*each) for each in recorded("cudalibs_torch.json")]


@pytest.fixture(scope="module")
def spans(messages: list[Message]) -> list[CollectedSpan]:
    return list(spans_of(messages))


def test_each_call_that_computes_is_a_span(spans: list[CollectedSpan]) -> None:
    assert [span.name for span in spans] == [
        "cudnnBackendExecute",
        "cudnnBatchNormalizationForwardInference",
        "cudnnBackendExecute",
        "cublasLtMatmul",
        "cublasLtMatmul",
        "cudnnBackendExecute",
        "cublasLtMatmul",
        "cublasGemmStridedBatchedEx",
    ]
    assert {span.level for span in spans} == {Level.LIBRARY}
    libraries = [(span.attributes or {})["library"] for span in spans]
    assert set(libraries) == {"cuDNN", "cuBLAS", "cuBLASLt"}


def test_a_call_says_its_problem_and_no_address(spans: list[CollectedSpan]) -> None:
    told = spans[-1].attributes or {}
    assert [told[name] for name in ("m", "n", "k", "batchCount")] == ["128", "128", "64", "8"]
    assert told["Atype"] == "CUDA_R_16BF"
    product = spans[3].attributes or {}
    assert product["Adesc"] == "[type=R_32F rows=1024 cols=512 ld=1024]"
    values = [str(value) for span in spans for value in (span.attributes or {}).values()]
    assert not any(value.startswith(("0X", "POINTER")) for value in values)


def test_calls_do_not_overlap_and_say_how_their_end_is_known(spans: list[CollectedSpan]) -> None:
    for one, other in itertools.pairwise(spans):
        assert 0 < one.duration_ns <= other.start_ns - one.start_ns
    known = [(span.attributes or {})["duration"] for span in spans]
    assert known == ["at most"] * 7 + ["at least"]


def test_an_execution_is_told_twice_and_counted_once(
    messages: list[Message], spans: list[CollectedSpan]
) -> None:
    executions = [each for each in messages if "cudnnBackendExecute()" in each.text]
    assert len(executions) == 6
    assert spans[0].duration_ns == executions[1].at_ns - executions[0].at_ns
    elsewhere = [replace(each, thread=1) for each in executions[:1]]
    (span,) = spans_of(elsewhere)
    assert span.duration_ns == 0
    assert "duration" not in (span.attributes or {})


def test_threads_do_not_end_each_others_calls(messages: list[Message]) -> None:
    begun = next(each for each in messages if each.function == "cublasLtMatmul")
    idle = replace(begun, function="cublasLtMatmulDescDestroy", at_ns=begun.at_ns + 9, thread=1)
    (span,) = spans_of([begun, idle])
    assert span.duration_ns == 0
    (ended,) = spans_of([begun, replace(idle, thread=begun.thread)])
    assert ended.duration_ns == 9


MAPS = """\
7f00-7f01 r-xp 00000000 00:1f 12  /venv/nvidia/cu13/lib/libcublasLt.so.13
7f02-7f03 r-xp 00000000 00:1f 13  /venv/nvidia/cudnn/lib/libcudnn.so.9
7f04-7f05 r-xp 00000000 00:1f 14  /venv/nvidia/cudnn/lib/libcudnn_graph.so.9
7f06-7f07 rw-p 00000000 00:00 0
"""


def test_libraries_are_those_that_the_process_loaded() -> None:
    assert cudalibs.loaded_paths(MAPS) == {
        "cublasLt": "/venv/nvidia/cu13/lib/libcublasLt.so.13",
        "cudnn": "/venv/nvidia/cudnn/lib/libcudnn_graph.so.9",
    }
    assert cudalibs.loaded_paths("") == {}


@pytest.mark.parametrize(
    ("level", "reason"), [(Level.LIBRARY, "loaded none of"), (Level.SYSTEM, "slows every call")]
)
def test_what_is_not_heard_says_why(
    level: Level, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = tmp_path / "maps"
    nothing.touch()
    monkeypatch.setattr(cudalibs, "_MAPS", nothing)
    opened = Opened("litert", "2", (), (), "gpu", "", "float32", 1, {})
    with pytest.raises(CollectorUnavailable, match=reason):
        cudalibs.open_collector(CollectorRequest(opened, level))
