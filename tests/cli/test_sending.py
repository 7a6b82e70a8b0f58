"""Files beside a model's manifest: which are sent, and which are left as they are."""

import os
from pathlib import Path
from typing import Any

import pytest

from cli import sending
from cli.arguments import build_parser
from cli.sending import with_files

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """See to it that no cluster is found, whatever runs on this machine."""
    for name in [each for each in os.environ if each.startswith("MLSCOPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path / "data"))


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what is put up, in place of putting it."""
    found: list[Any] = []

    def archived(_: object, kind: str, members: dict[str, Path]) -> tuple[str, str]:
        found.append({name: path.read_text() for name, path in members.items()})
        return f"artifact://{kind}/whole.tar", "sha256:whole"

    def alone(_: object, kind: str, path: Path) -> tuple[str, str]:
        found.append(path.name)
        return f"artifact://{kind}/{path.name}", f"sha256:{path.stem}"

    monkeypatch.setattr(sending, "put_archive", archived)
    monkeypatch.setattr(sending, "put_file", alone)
    return found


def sent(folder: Path, **assets: Any) -> dict[str, Any]:
    """Return a manifest as it is sent, of files in `folder`."""
    for name in ("m.pb", "saved/a", "saved/b/c", "names.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    steps = [{"topk": None, "labels": "names.txt"}]
    manifest = {"name": "mine", "outputs": [{"steps": steps}], "model": assets}
    arguments = build_parser().parse_args(["run", "mine.yml"])
    return with_files(manifest, folder / "mine.yml", arguments)


def test_files_go_as_they_lie(tmp_path: Path, put: list[Any]) -> None:
    given = {"graph_path": "m.pb", "checksum": "sha256:1", "assets": {"names.txt": ""}}
    found = sent(tmp_path, **given)["model"]
    assert put == [{"m.pb": "m.pb", "names.txt": "names.txt"}]
    whole = {"archive": "artifact://models/whole.tar", "archive_checksum": "sha256:whole"}
    assert found == given | whole


def test_a_folder_goes_with_what_is_below(tmp_path: Path, put: list[Any]) -> None:
    found = sent(tmp_path / "x", base_url="file:saved", graph_path="b")["model"]
    assert put == [{"b/c": "saved/b/c"}]
    assert (found["graph_path"], "base_url" in found) == ("b", False)


def test_steps_name_files_by_where_they_are_now(tmp_path: Path, put: list[Any]) -> None:
    web = "https://e.org/m.pb"
    found = sent(tmp_path, graph_path=web, checksum="sha256:1", assets={"names.txt": ""})
    assert put == ["names.txt"]
    assert found["model"]["graph_path"] == web
    address = "artifact://models/names.txt"
    assert found["model"]["assets"] == {address: "sha256:names"}
    assert found["outputs"][0]["steps"][0]["labels"] == address


def test_an_archive_goes_by_itself(tmp_path: Path, put: list[Any]) -> None:
    found = sent(tmp_path, archive="m.pb", graph_path="inside")["model"]
    assert (found["archive"], found["archive_checksum"]) == ("artifact://models/m.pb", "sha256:m")
    assert put == ["m.pb"]


@pytest.mark.parametrize("graph", ["elsewhere.onnx", "https://e.org/m.pb", "artifact://m.pb"])
def test_what_is_not_here_is_left(tmp_path: Path, put: list[Any], graph: str) -> None:
    assert sent(tmp_path, graph_path=graph)["model"] == {"graph_path": graph}
    assert put == []


def test_files_of_shipped_manifests_are_left(put: list[Any]) -> None:
    manifest = {"model": {"graph_path": "identity/model.onnx"}}
    arguments = build_parser().parse_args(["run", "identity.yml"])
    file = REPOSITORY / "manifests" / "models" / "identity.yml"
    assert with_files(manifest, file, arguments) == manifest
    assert put == []


def test_without_a_cluster_nothing_is_sent(tmp_path: Path) -> None:
    assert sent(tmp_path, graph_path="m.pb")["model"] == {"graph_path": "m.pb"}
