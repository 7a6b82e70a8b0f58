"""Files below the manifests folder."""

import hashlib
from pathlib import Path

import pytest

from schemas.manifest import Assets
from services.agent.assets import AssetFolder, ModelFiles
from services.agent.errors import AssetMissing, AssetUnchecked, ChecksumMismatch, PathEscapes
from tests.services.agent.builders import model_named

BODY = b"cat\ndog\n"
SUM = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> AssetFolder:
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "labels.txt").write_bytes(BODY)
    (tmp_path.parent / "secret.txt").write_bytes(BODY)
    return AssetFolder(tmp_path, "models")


def files(folder: AssetFolder, **assets: object) -> ModelFiles:
    model = model_named("identity")
    return ModelFiles(folder, model.model_copy(update={"model": Assets.model_validate(assets)}))


@pytest.mark.parametrize("checksum", [SUM, f"sha256:{SUM}", SUM.upper()])
def test_a_file_is_read_when_its_checksum_fits(folder: AssetFolder, checksum: str) -> None:
    assert folder.read("m/labels.txt", checksum) == BODY
    assert folder.checksums == {"m/labels.txt": f"sha256:{SUM}"}


def test_another_content_names_both_checksums(folder: AssetFolder) -> None:
    with pytest.raises(ChecksumMismatch) as caught:
        folder.read("m/labels.txt", "sha256:00ff")
    assert "00ff" in str(caught.value)
    assert SUM in str(caught.value)


def test_a_file_without_checksum_is_not_used(folder: AssetFolder) -> None:
    with pytest.raises(AssetUnchecked):
        folder.read("m/labels.txt", "")


def test_a_missing_file_is_named(folder: AssetFolder) -> None:
    with pytest.raises(AssetMissing, match=r"m/none\.txt"):
        folder.read("m/none.txt", SUM)


@pytest.mark.parametrize("path", ["../../secret.txt", "m/../../../secret.txt", "/etc/hostname"])
def test_no_path_leads_out(folder: AssetFolder, path: str) -> None:
    with pytest.raises(PathEscapes):
        folder.read(path, SUM)


def test_no_link_leads_out(folder: AssetFolder, tmp_path: Path) -> None:
    (tmp_path / "models" / "link").symlink_to(tmp_path.parent / "secret.txt")
    with pytest.raises(PathEscapes):
        folder.read("link", SUM)


def test_labels_are_lines_of_a_named_asset(folder: AssetFolder) -> None:
    named = files(folder, base_url="file:m", assets={"labels.txt": SUM})
    assert named.labels("labels.txt") == ("cat", "dog")
    with pytest.raises(AssetUnchecked):
        files(folder, base_url="file:m").labels("labels.txt")


def test_other_addresses_are_not_fetched(folder: AssetFolder) -> None:
    with pytest.raises(AssetMissing, match="only file: addresses"):
        files(folder, base_url="https://example.org/")


def test_weights_are_checked_where_there_are_some(folder: AssetFolder) -> None:
    assert files(folder).weights() is None
    named = files(folder, weights_path="m/labels.txt", weights_checksum="00")
    with pytest.raises(ChecksumMismatch):
        named.weights()
