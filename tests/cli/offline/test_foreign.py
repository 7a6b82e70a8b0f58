"""Another tool's file becomes a bundle that plans, reads back and repeats like any other."""

import gzip
from pathlib import Path

import pytest

from cli.failures import Misused
from cli.offline.bundle import Bundle, read
from cli.offline.bundle_request import request_of
from cli.offline.foreign import as_bundle
from cli.offline.planning import offline_plan
from cli.offline.recordings import FOLDER, unpacked
from mlscope.exchange.bundle import MAGIC
from mlscope.importing import unpacking
from mlscope.importing.reading import read_foreign
from mlscope.tracing.batches import columns_of
from schemas.batch import QueriesAnswered, TraceCaptured
from schemas.level import Level
from schemas.run import RunCompleted
from tests.cli.offline.shipped import shipped

FILES = Path("tests/mlscope/importing/files")
KINETO = FILES / "kineto_cpu.json"


@pytest.mark.parametrize("name", ["kineto_cpu.json", "onnxruntime.json", "ncu_resnet50.csv"])
def test_the_scheduler_plans_what_the_bundle_holds(name: str) -> None:
    with as_bundle(FILES / name, "resnet", 32) as path:
        bundle = read(path)
    anew = offline_plan(request_of(bundle, "k"), shipped())
    sessions = anew.plan.sessions
    assert [each.model_dump() for each in sessions] == [
        each.model_dump() for each in bundle.plan.sessions
    ]
    assert (bundle.plan.subject.model.name, sessions[0].batch_size) == ("resnet", 32)
    assert len(sessions[0].runs) == 1


@pytest.mark.parametrize(
    ("name", "run", "level"),
    [
        ("kineto_cpu.json", "b1-online-library", Level.LIBRARY),
        ("ncu_resnet50.csv", "b1-online-hardware", Level.HARDWARE),
    ],
)
def test_a_run_is_called_and_planned_by_the_level_it_has(name: str, run: str, level: Level) -> None:
    with as_bundle(FILES / name) as path:
        (session,) = read(path).plan.sessions
    assert [(each.run, each.level) for each in session.runs] == [(run, level)]


def _facts(bundle: Bundle) -> list[object]:
    return list(bundle.facts(bundle.plan.sessions[0].runs[0].run))


def test_the_bundle_says_all_that_the_file_does() -> None:
    recording = read_foreign(KINETO)
    with as_bundle(KINETO) as path:
        facts = _facts(read(path))
    (trace,) = [each for each in facts if isinstance(each, TraceCaptured)]
    (queries,) = [each for each in facts if isinstance(each, QueriesAnswered)]
    assert columns_of(trace)["start_ns"].tolist() == recording.spans["start_ns"].to_list()
    assert columns_of(trace)["level"].tolist() == recording.spans["level"].to_list()
    assert len(trace.attribute_texts) == recording.spans["attributes"].count()
    assert columns_of(queries)["query"].tolist() == [0, 1, 2]
    (end,) = [each for each in facts if isinstance(each, RunCompleted)]
    assert (end.level, end.tally.spans, end.tally.queries) == (Level.LIBRARY, trace.count, 3)
    assert "imported from a file of kineto: conditions are unknown" in end.caveats


def test_the_same_file_is_the_same_evaluation(tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    copy.write_bytes(KINETO.read_bytes())
    with as_bundle(KINETO) as first, as_bundle(copy) as second:
        assert read(first).evaluation == read(second).evaluation
        with as_bundle(first) as path:
            assert path == first


def test_a_packed_bundle_is_read_as_it_is_unpacked(tmp_path: Path) -> None:
    plain = unpacked("h200-resnet50", tmp_path)
    with as_bundle(FOLDER / f"{plain.name}.gz") as path:
        packed, bundle = read(path), read(plain)
        assert (packed.name, packed.evaluation) == (bundle.name, bundle.evaluation)
        assert {run: len(facts) for run, facts in packed.positions.items()} == {
            run: len(facts) for run, facts in bundle.positions.items()
        }
    assert not path.exists()


def test_a_packed_bundle_that_grows_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.bundle.gz"
    path.write_bytes(gzip.compress(MAGIC + bytes(3_000)))
    monkeypatch.setattr(unpacking, "MAX_BYTES", 2_000)
    with pytest.raises(Misused, match="larger than 2000 bytes when unpacked"), as_bundle(path):
        pass


@pytest.mark.parametrize(
    "body",
    [gzip.compress(MAGIC, mtime=0)[:9], b"\x1f\x8bhello", None],
    ids=["cut off", "no gzip", "missing"],
)
def test_a_bundle_that_cannot_be_unpacked_is_named(tmp_path: Path, body: bytes | None) -> None:
    path = tmp_path / "run.bundle.gz"
    if body is not None:
        path.write_bytes(body)
    reason = "is damaged gzip" if body is not None else "No such file"
    with pytest.raises(Misused, match=f"{path}.*{reason}"), as_bundle(path):
        pass


def test_a_trace_is_of_the_framework_and_device_that_the_user_names() -> None:
    with as_bundle(KINETO, framework="torch", device="npu") as path:
        bundle = read(path)
        (end,) = [fact for fact in _facts(bundle) if isinstance(fact, RunCompleted)]
    assert (bundle.plan.subject.framework, bundle.plan.subject.device) == ("pytorch", "npu")
    assert (end.conditions.framework, end.conditions.device) == ("pytorch", "npu")
    with as_bundle(KINETO, framework="my-simulator", device="cuda:1") as path:
        subject = read(path).plan.subject
    assert (subject.framework, subject.device) == ("my-simulator", "cuda:1")


@pytest.mark.parametrize(
    ("file", "reason"),
    [(KINETO, "--device 'a b': a name has"), (FOLDER / "h200-resnet50.bundle.gz", "is a bundle")],
    ids=["bad", "bundle"],
)
def test_a_device_that_cannot_be_named_is_refused(file: Path, reason: str) -> None:
    with pytest.raises(Misused, match=reason), as_bundle(file, device="a b"):
        pass


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    strange = tmp_path / "strange"
    strange.write_text("hello")
    with pytest.raises(Misused, match="is neither a bundle nor a trace"), as_bundle(strange):
        pass
