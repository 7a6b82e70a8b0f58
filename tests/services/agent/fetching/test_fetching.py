"""Files that are elsewhere: brought by the agent, used by a worker, held while it lasts."""

import hashlib
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from mlscope.assets.cache import Cache
from mlscope.assets.locks import try_lock
from schemas.manifest import Assets
from schemas.plan import Subject
from services.agent.errors import FetchFailed, FileUnverified
from services.agent.fetching.fetching import fetch_for_subject, model_requests
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from tests.mlscope.assets.web_server import Site, serving
from tests.services.agent.builders import (
    MANIFESTS,
    SLEEPY,
    FetchingHost,
    Kept,
    a_sleepy_subject,
    a_subject,
    an_order,
    limits,
    model_named,
)

pytestmark = pytest.mark.usefixtures("forked_workers")
BODY = (MANIFESTS / "models" / "identity" / "model.onnx").read_bytes()
SUM = hashlib.sha256(BODY).hexdigest()


def subject_of(**assets: Any) -> Subject:
    """Return the identity model, its file elsewhere."""
    subject = a_subject()
    model = subject.model.model_copy(update={"model": Assets.model_validate(assets)})
    return subject.model_copy(update={"model": model})


def an_archive() -> bytes:
    """Return the model's file in a folder of an archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("net/model.onnx")
        member.size = len(BODY)
        tar.addfile(member, io.BytesIO(BODY))
    return packed.getvalue()


async def done(subject: Subject, host: FetchingHost, folder: Path) -> Kept:
    """Bring what is needed and do a run."""
    kept = Kept()
    worker = await WorkerProcess.start("w", limits(folder))
    try:
        worker.keep_assets(await fetch_for_subject(subject, host))
        await Execution(
            OutcomePublisher(an_order(subject), kept), worker, MANIFESTS, 30.0
        ).carry_out()
    finally:
        await worker.close()
    return kept


async def test_a_model_from_the_web_runs(site: Site, tmp_path: Path) -> None:
    site.put("/identity/model.onnx", BODY)
    subject = subject_of(base_url=f"{site.url}/identity", graph_path="model.onnx", checksum=SUM)
    for each in ("one", "two"):
        kept = await done(subject, FetchingHost(tmp_path / "cache"), tmp_path / each)
        checksums = kept.completed().conditions.checksums
        assert checksums[f"{site.url}/identity/model.onnx"] == f"sha256:{SUM}"
    assert len(site.asked) == 1


async def test_a_file_nobody_can_verify_is_brought_only_on_request(tmp_path: Path) -> None:
    subject = subject_of(base_url="hf://o/r@main", graph_path="model.onnx")
    with serving() as site:
        site.put("/o/r/resolve/main/model.onnx", BODY)
        host = FetchingHost(tmp_path / "cache", hub_url=site.url)
        with pytest.raises(FileUnverified, match=r"hf://o/r@main/model\.onnx"):
            await fetch_for_subject(subject, host)
        assert site.asked == []
        taken = subject.model_copy(update={"options": {"weights": "unverified"}})
        done_run = (await done(taken, host, tmp_path / "run")).completed()
    assert done_run.conditions.checksums["hf://o/r@main/model.onnx"] == f"sha256:{SUM}"
    assert any("gives no checksum" in each for each in done_run.caveats)


async def test_random_weights_run_where_the_manifest_s_cannot_be_had(tmp_path: Path) -> None:
    plain = model_named("networks/espcn-x2-pytorch")
    elsewhere = {"base_url": "hf://o/r@main", "weights_path": "w.pth", "weights": ""}
    model = plain.model_copy(update={"model": plain.model.model_copy(update=elsewhere)})
    subject = a_subject(dataset="photos", framework="pytorch", options={"weights": "random"})
    subject = subject.model_copy(update={"model": model})
    completed = (await done(subject, FetchingHost(tmp_path / "cache"), tmp_path)).completed()
    assert completed.tally.failed_queries == 0
    assert "the weights are random (seed 0): there is no accuracy" in completed.caveats


async def test_a_model_in_an_archive_runs(site: Site, tmp_path: Path) -> None:
    packed = an_archive()
    sha256 = hashlib.sha256(packed).hexdigest()
    url = site.put("/net.tar.gz", packed)
    subject = subject_of(archive=url, archive_checksum=sha256, graph_path="net/model.onnx")
    kept = await done(subject, FetchingHost(tmp_path / "cache"), tmp_path)
    assert kept.completed().conditions.checksums[url] == f"sha256:{sha256}"


async def test_what_is_brought_is_held_until_it_is_let_go(site: Site, tmp_path: Path) -> None:
    host = FetchingHost(tmp_path / "cache", cache_max_bytes=len(BODY) + 10)
    first = subject_of(graph_path=site.put("/one", BODY), checksum=SUM)
    other = b"x" * len(BODY)
    second = subject_of(
        graph_path=site.put("/two", other), checksum=hashlib.sha256(other).hexdigest()
    )
    goods = await fetch_for_subject(first, host)
    with pytest.raises(FetchFailed, match="cache"):
        await fetch_for_subject(second, host)
    goods.close()
    (await fetch_for_subject(second, host)).close()
    assert Cache(host.assets_folder, 1).pin(SUM) is None


async def test_it_is_held_as_long_as_the_worker_lives(site: Site, tmp_path: Path) -> None:
    goods = await fetch_for_subject(
        subject_of(graph_path=site.put("/m", BODY), checksum=SUM), FetchingHost(tmp_path / "cache")
    )
    held = tmp_path / "cache" / "sha256" / SUM[:2] / SUM[2:]
    worker = await WorkerProcess.start("w", limits(tmp_path))
    worker.keep_assets(goods)
    assert try_lock(held, "exclusive") is None
    await worker.close()
    alone = try_lock(held, "exclusive")
    assert alone is not None
    os.close(alone)


@pytest.mark.parametrize(
    ("assets", "reason"),
    [
        ({"graph_path": "artifact://m", "checksum": SUM}, "need a NATS server"),
        ({"graph_path": "hf://o/r@main/m", "checksum": SUM}, "hub"),
        ({"graph_path": "https://example.org/m", "checksum": "sha256:../x"}, "checksum"),
        ({"graph_path": "gopher://m"}, "scheme"),
    ],
)
async def test_what_can_not_be_brought_is_said(
    assets: dict[str, str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(FetchFailed, match=reason):
        await fetch_for_subject(subject_of(**assets), FetchingHost(tmp_path / "cache"))


async def test_weights_that_cannot_be_had_offer_random_ones(site: Site, tmp_path: Path) -> None:
    subject = subject_of(
        base_url=f"{site.url}/gone", builder="b.c", weights_path="w.pth", weights_checksum=SUM
    )
    with pytest.raises(FetchFailed, match="--option weights=random measures it with random"):
        await fetch_for_subject(subject, FetchingHost(tmp_path / "cache"))


async def test_where_all_is_at_hand_no_cache_is_made(tmp_path: Path) -> None:
    goods = await fetch_for_subject(a_subject(), FetchingHost(tmp_path / "cache"))
    assert (goods.files, (tmp_path / "cache").exists()) == ({}, False)


def test_random_weights_are_not_needed() -> None:
    model = subject_of(base_url="https://e.org", builder="b.c", weights_path="w.pth").model
    assert [need.name for need in model_requests(model)] == ["w.pth"]
    assert model_requests(model, random_weights=True) == ()


async def test_weights_are_random_where_a_request_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SLEEPY))
    subject = a_sleepy_subject(weights="random")
    assets = Assets(builder="a.b", weights_path="https://example.org/w.pth", seed=3)
    model = subject.model.model_copy(update={"model": assets})
    subject = subject.model_copy(update={"model": model})
    completed = (await done(subject, FetchingHost(tmp_path / "cache"), tmp_path)).completed()
    assert "the weights are random (seed 3): there is no accuracy" in completed.caveats
