"""Lists of evaluations under the constraints of requests."""

import random
from typing import Any

import pytest

from schemas.evaluation import EvaluationRequested
from schemas.manifest import HardwareManifest
from schemas.request import PREDICT, PURPOSE, ListEvaluations
from schemas.status import AgentStatus, Catalog
from services.scheduler.errors import RequestRefused
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.list_filters import row_of
from tests.services.scheduler.samples import (
    FRAMEWORKS,
    a_catalog,
    a_gpu,
    a_machine,
    a_model,
    a_model_of,
    a_request,
    a_runtime,
    agents_of,
    an_agent,
)
from tests.services.scheduler.stories import E, Story

AGENTS = (
    an_agent("a1", runtimes=(a_runtime(version="1.20.0"),), labels={"rack": "7"}, image="mine:1"),
    an_agent("a2", hardware=a_machine(architecture="aarch64")),
)


BOX = HardwareManifest(name="box", memory_bytes=1 << 30)


@pytest.fixture(scope="module")
def board() -> EvaluationIndex:
    """Return a board of an evaluation planned on a1, and of one that is only requested."""
    board, story = EvaluationIndex(), Story(random.Random(1))
    story.agents["a1"] = AGENTS[0]
    request = a_request(labels={"build": "7", "by": "me"})
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=5))
    story.settle()
    for recorded in story.log:
        board.follow(recorded)
    later = Story(random.Random(2))
    later.say(EvaluationRequested(evaluation="later", request=a_request(), requested_ns=9))
    for recorded in later.log:
        board.take(recorded)
    return board


def found(
    board: EvaluationIndex, known: tuple[AgentStatus, ...] = AGENTS, **wish: Any
) -> list[str]:
    command = ListEvaluations.model_validate(wish)
    catalog = a_catalog(*known, hardware=(BOX,)) if known else Catalog()
    return [each.evaluation for each in board.listed(command, catalog).evaluations]


@pytest.mark.parametrize(
    "wish",
    [
        {"model": "Tiny:>=1"},
        {"model": "tiny:==1.*"},
        {"framework": "ONNXRuntime"},
        {"framework": "onnxruntime:>=1.16.0 <2.0"},
        {"framework": {"name": "", "version": "1.20.0"}},
        {"agents": ["a2", "a1"]},
        {"labels": {"build": "7"}},
        {"system": {"device": "CPU"}},
        {"system": {"architecture": "amd64", "labels": {"rack": "7"}}},
        {"system": {"hardware": "box", "image": "mine:1"}},
        {"system": {"memory_bytes": 1 << 30}, "model": "tiny", "state": "running"},
    ],
)
def test_what_fits_is_listed_and_what_is_not_known_fits_nothing(
    board: EvaluationIndex, wish: dict[str, Any]
) -> None:
    assert found(board, **wish) == [E]


@pytest.mark.parametrize(
    "wish",
    [
        {"model": "tiny:>=2"},
        {"model": "other"},
        {"framework": "pytorch"},
        {"framework": "onnxruntime:<1.20"},
        {"agents": ["a2"]},
        {"labels": {"build": "8"}},
        {"labels": {"build": "7", "by": "you"}},
        {"system": {"device": "gpu"}},
        {"system": {"architecture": "arm64"}},
        {"system": {"memory_bytes": 1 << 50}},
        {"system": {"labels": {"rack": "8"}}},
        {"system": {"image": "mine:2"}},
        {"system": {"hardware": {"kind": "hardware", "name": "big", "memory_bytes": 1 << 50}}},
    ],
)
def test_what_does_not_fit_is_left_out(board: EvaluationIndex, wish: dict[str, Any]) -> None:
    assert found(board, **wish) == []


def test_without_constraints_all_are_listed_newest_first(board: EvaluationIndex) -> None:
    assert found(board) == found(board, model="tiny") == ["later", E]
    assert found(board, limit=1, framework="onnxruntime") == [E]


def test_of_an_agent_nobody_knows_no_machine_is_known(board: EvaluationIndex) -> None:
    assert found(board, (), system={"architecture": "amd64"}) == []


def test_a_model_is_found_as_its_request_named_it() -> None:
    story = Story(random.Random(1))
    request = a_request(model="tiny:>=9")
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=5))
    board = EvaluationIndex()
    board.follow(story.log[0])
    assert (found(board, model="tiny:>=9"), found(board, model="tiny:>=1")) == ([E], [])


def test_a_model_of_a_request_is_found_by_its_own_version_and_by_no_other() -> None:
    story = Story(random.Random(1))
    story.agents["a1"] = AGENTS[0]
    request = a_request(model=a_model(version="1.0.0+4f8a12345678"))
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=5))
    story.settle()
    board = EvaluationIndex()
    for recorded in story.log:
        board.follow(recorded)
    for model in ("tiny", "tiny:1.0.0+4f8a12345678"):
        assert found(board, model=model) == [E]
    for model in ("tiny:1.0.0", "tiny:>=1"):
        assert found(board, model=model) == []


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"model": "tiny:>>1"}, r"==1\.15"),
        ({"framework": "onnxruntime:=>1"}, r"==1\.15"),
        ({"system": {"hardware": "none"}}, "known names: box"),
        ({"system": {"image": "manifest"}}, "the name of an image"),
    ],
)
def test_a_constraint_that_is_none_is_refused(
    board: EvaluationIndex, wish: dict[str, Any], said: str
) -> None:
    with pytest.raises(RequestRefused, match=said):
        found(board, **wish)


@pytest.mark.parametrize(("vendor", "device"), [("nvidia", "cuda"), ("amd", "rocm")])
def test_a_run_on_a_gpu_is_found_by_its_vendors_name(vendor: str, device: str) -> None:
    machine = a_machine(accelerators=(a_gpu(vendor=vendor),))
    gpu = an_agent("a1", hardware=machine, runtimes=(a_runtime(devices=("gpu",)),))
    board, story = EvaluationIndex(), Story(random.Random(1))
    story.agents["a1"] = gpu
    story.say(EvaluationRequested(evaluation=E, request=a_request(), requested_ns=5))
    story.settle()
    for recorded in story.log:
        board.follow(recorded)
    listed = {
        name: found(board, (gpu,), system={"device": name}) for name in ("gpu", "cuda", "rocm")
    }
    assert listed == {"cuda": [], "rocm": []} | {"gpu": [E], device: [E]}


def test_a_row_tells_what_was_planned(board: EvaluationIndex) -> None:
    row = row_of(board.open[E])
    assert (row.version, row.framework, row.framework_version) == ("1.0.0", "onnxruntime", "1.20.0")
    assert (row.device, row.agents) == ("cpu", ("a1",))


@pytest.mark.parametrize(
    ("search", "names"),
    [
        ("INY", ["later", E]),
        ("onnx 1.20", [E]),
        ("build=7 a1 cpu", [E]),
        (E[:6], [E]),
        ("tiny nothing", []),
    ],
)
def test_a_search_finds_parts_of_every_field(
    board: EvaluationIndex, search: str, names: list[str]
) -> None:
    assert found(board, search=search) == names


def test_what_only_answered_files_is_listed_on_request() -> None:
    board = EvaluationIndex()
    for number, labels in enumerate(({}, {PURPOSE: PREDICT}, {PURPOSE: "nightly"})):
        story = Story(random.Random(number))
        fact = EvaluationRequested(
            evaluation=f"e{number}", request=a_request(labels=labels), requested_ns=number
        )
        story.say(fact)
        for recorded in story.log:
            board.take(recorded)
    assert found(board) == found(board, model="tiny") == ["e2", "e0"]
    assert found(board, predictions=True) == ["e2", "e1", "e0"]
    assert found(board, labels={PURPOSE: PREDICT}) == ["e1"]


def test_a_list_says_how_many_match_beyond_its_page(board: EvaluationIndex) -> None:
    answer = board.listed(ListEvaluations(limit=1, offset=1))
    assert ([each.evaluation for each in answer.evaluations], answer.total) == ([E], 2)


@pytest.mark.parametrize(
    ("framework", "names"),
    [
        ("onnxruntime", [E]),
        ("OpenVINO:>=2", [E]),
        (":2.0", [E]),
        ("litert:<2", []),
        ("pytorch", []),
    ],
)
def test_an_evaluation_of_several_frameworks_is_found_by_each(
    framework: str, names: list[str]
) -> None:
    board, story = EvaluationIndex(), Story(random.Random(1))
    agents = agents_of(o=["onnxruntime"], v=["openvino"], l=["litert"])
    story.agents |= {own.announcement.agent: own for own in agents}
    request = a_request(spread="all", model=a_model_of(*FRAMEWORKS))
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=5))
    story.settle()
    for recorded in story.log:
        board.follow(recorded)
    assert found(board, agents, framework=framework) == names
    assert found(board, agents, search="tiny litert") == [E]
