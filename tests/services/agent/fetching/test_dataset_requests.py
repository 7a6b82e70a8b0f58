"""Datasets that are elsewhere: brought by the agent, read by a worker, a bad sample lost alone."""

import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.batch import QueriesAnswered
from schemas.manifest import DatasetManifest, Sample, Source
from schemas.plan import Subject
from services.agent.errors import DatasetUnusable, FetchFailed, FolderForbidden
from services.agent.fetching.dataset_requests import dataset_requests, url_list_requests
from services.agent.fetching.fetching import fetch_for_subject
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from tests.mlscope.assets.web_server import Site
from tests.mlscope.datasets.layouts import written
from tests.services.agent.builders import (
    MANIFESTS,
    Kept,
    a_run,
    a_subject,
    an_order,
    dataset_named,
    limits,
)

pytestmark = pytest.mark.usefixtures("forked_workers")
PHOTO = (MANIFESTS / "datasets" / "photos" / "panda.jpg").read_bytes()


@dataclass(frozen=True)
class Host:
    """A host's settings."""

    assets_folder: Path
    dataset_folders: tuple[str, ...] = ()
    cache_max_bytes: int = 64 << 20
    fetch_hosts: tuple[str, ...] = ("public", "127.0.0.1")
    fetch_timeout_s: float = 3600.0
    hub_url: str = ""
    manifests_folder: Path = MANIFESTS

    def hub_token(self) -> str | None:
        """Return that there is none."""
        return None


def dataset_of(address: str, reader: str = "image_folder", **said: Any) -> DatasetManifest:
    """Return a dataset that an address leads to."""
    return DatasetManifest(name="d", source=Source(address=address, reader=reader, **said))


def classified(dataset: DatasetManifest) -> Subject:
    """Return EfficientNet-Lite0 with pictures."""
    subject = a_subject("efficientnet_lite0", "photos")
    return subject.model_copy(update={"dataset": dataset})


async def done(subject: Subject, host: Host, folder: Path, queries: int) -> Kept:
    """Bring what is needed and send a query for each sample."""
    kept = Kept()
    worker = await WorkerProcess.start("w", limits(folder))
    try:
        worker.keep_assets(await fetch_for_subject(subject, host))
        order = an_order(subject, [a_run(queries=queries)])
        await Execution(OutcomePublisher(order, kept), worker, MANIFESTS, 120.0).carry_out()
    finally:
        await worker.close()
    return kept


def errors_of(kept: Kept) -> dict[int, str]:
    """Return what was wrong with the queries that failed."""
    return {
        int(np.frombuffer(batch.query, "<i4")[row]): text
        for batch in kept.of(QueriesAnswered)
        for row, text in zip(batch.error_rows, batch.error_texts, strict=True)
    }


async def test_the_digits_that_are_shipped(tmp_path: Path) -> None:
    kept = await done(a_subject("digits", "digits"), Host(tmp_path / "cache"), tmp_path, 20)
    completed = kept.completed()
    assert completed.tally.failed_queries == 0
    assert "file:digits/digits.npz" in completed.conditions.checksums


async def test_photos_of_packages(tmp_path: Path) -> None:
    photos = dataset_named("package_photos")
    installed = [each for each in photos.samples if "scikit" in each.path]
    dataset = photos.model_copy(update={"samples": tuple(installed)})
    kept = await done(classified(dataset), Host(tmp_path / "cache"), tmp_path, len(installed))
    checksums = kept.completed().conditions.checksums
    assert len(installed) == 9
    assert {each.path: f"sha256:{each.sha256}" for each in installed}.items() <= checksums.items()


async def test_a_corrupt_photo_and_a_text_among_good_ones(tmp_path: Path) -> None:
    for name, body in (("a", PHOTO), ("b", PHOTO[:5000]), ("c", b"no picture"), ("d", PHOTO)):
        written(tmp_path / "pets" / "panda" / f"{name}.jpg", body)
    dataset = dataset_of(f"file:{tmp_path / 'pets'}")
    host = Host(tmp_path / "cache", (str(tmp_path),))
    kept = await done(classified(dataset), host, tmp_path, 4)
    completed, errors = kept.completed(), errors_of(kept)
    assert completed.tally.failed_queries == 2
    assert sorted(errors) == [1, 2]
    assert errors[1].startswith("sample 1: decode: not a readable")
    assert errors[1].endswith("(panda/b.jpg)")
    assert any("its files were not checked" in each for each in completed.caveats)


async def test_addresses_of_a_list_one_of_them_gone(site: Site, tmp_path: Path) -> None:
    urls = [site.put(f"/{number}.jpg", PHOTO) for number in range(3)]
    del site.files["/1.jpg"]
    sha256 = hashlib.sha256(PHOTO).hexdigest()
    text = "url,sha256,label\n" + "".join(f"{url},{sha256},388\n" for url in urls[1:])
    listed = site.put("/list.csv", f"{text}{urls[0]},,388\n".encode())
    body = site.files["/list.csv"]
    checksum = f"sha256:{hashlib.sha256(body).hexdigest()}"
    dataset = dataset_of(listed, "urls", checksum=checksum)
    kept = await done(classified(dataset), Host(tmp_path / "cache"), tmp_path, 3)
    errors = errors_of(kept)
    assert sorted(errors) == [0, 2]
    assert "404" in errors[0]
    assert "give its checksum" in errors[2]


async def test_an_archive_with_a_folder_in_it(site: Site, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in ("set/val/cat/a.jpg", "set/val/dog/b.jpg"):
            member = tarfile.TarInfo(name)
            member.size = len(PHOTO)
            tar.addfile(member, io.BytesIO(PHOTO))
    sha256 = hashlib.sha256(packed.getvalue()).hexdigest()
    url = site.put("/set.tar.gz", packed.getvalue())
    said: dict[str, Any] = {"archive": True, "path": "set/val", "samples": 2}
    dataset = dataset_of(url, checksum=f"sha256:{sha256}", **said)
    kept = await done(classified(dataset), Host(tmp_path / "c"), tmp_path, 2)
    assert kept.completed().conditions.checksums[url] == f"sha256:{sha256}"


@pytest.mark.parametrize("path", ["/etc", "../../../tests"])
async def test_a_folder_that_nobody_allowed(tmp_path: Path, path: str) -> None:
    with pytest.raises(FolderForbidden, match="MLSCOPE_DATASET_FOLDERS"):
        await fetch_for_subject(
            classified(dataset_of(f"file:{path}")), Host(tmp_path / "c", ("/srv",))
        )


async def test_a_list_that_can_not_be_read(tmp_path: Path) -> None:
    written(tmp_path / "list.csv", "url,label\nhttps://e.org/a\n")
    dataset = dataset_of(f"file:{tmp_path / 'list.csv'}", "urls")
    with pytest.raises(DatasetUnusable, match=r"list\.csv: record line 2"):
        await fetch_for_subject(classified(dataset), Host(tmp_path / "c", (str(tmp_path),)))


def test_what_datasets_need() -> None:
    assert dataset_requests(dataset_named("photos")) == ()
    (digits,) = dataset_requests(dataset_named("digits"))
    assert (digits.in_place, digits.below) == (True, "datasets")
    photos = dataset_requests(dataset_named("package_photos"))
    assert len(photos) == 10
    assert not any(each.in_place or each.is_optional for each in photos)
    with pytest.raises(FetchFailed, match="scheme"):
        dataset_requests(DatasetManifest(name="d", samples=(Sample(path="gopher://x"),)))


def test_what_a_list_needs(tmp_path: Path) -> None:
    text = "https://e.org/a\nfile:/etc/passwd\nhttps://e.org/b\nnope://x\nhttps://e.org/c\n"
    path = written(tmp_path / "l.txt", text)
    needs = url_list_requests(dataset_of("file:l.txt", "urls"), path)
    assert [each.name[-1] for each in needs] == ["a", "b", "c"]
    assert all(each.is_optional for each in needs)
    assert len(url_list_requests(dataset_of("file:l.txt", "urls", most_samples=2), path)) == 1
