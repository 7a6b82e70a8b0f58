"""Files beside a model's manifest: which are sent, and which are left as they are."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.arguments import build_parser
from cli.failures import Misused
from cli.inputs import model_files as sending
from cli.inputs.model_files import with_files

REPOSITORY = Path(__file__).resolve().parents[3]


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


def sent(
    folder: Path, *, command: str = "run", frameworks: tuple[Any, ...] = (), **assets: Any
) -> dict[str, Any]:
    """Return a manifest as it is sent, of files in `folder`."""
    for name in ("m.pb", "saved/a", "saved/b/c", "names.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    steps = [{"topk": None, "labels": "names.txt"}]
    manifest = {"name": "mine", "outputs": [{"steps": steps}], "model": assets}
    manifest["frameworks"] = list(frameworks)
    arguments = build_parser().parse_args([command, "mine.yml"])
    return with_files(manifest, folder / "mine.yml", arguments)


def test_files_go_as_they_lie(tmp_path: Path, put: list[Any]) -> None:
    given: dict[str, Any] = {
        "graph_path": "m.pb",
        "checksum": "sha256:1",
        "assets": {"names.txt": ""},
    }
    found = sent(tmp_path, **given)["model"]
    assert put == [{"m.pb": "m.pb", "names.txt": "names.txt"}]
    whole = {"archive": "artifact://models/whole.tar", "archive_checksum": "sha256:whole"}
    assert found == given | whole


def test_a_folder_goes_with_what_is_below(tmp_path: Path, put: list[Any]) -> None:
    found = sent(tmp_path / "x", base_url="file:saved", graph_path="b")["model"]
    assert put == [{"b/c": "saved/b/c"}]
    assert (found["graph_path"], "base_url" in found) == ("b", False)


def test_files_keep_their_names_in_every_variant(tmp_path: Path, put: list[Any]) -> None:
    names: dict[str, Any] = {"assets": {"names.txt": ""}}
    web = {"graph_path": "https://e.org/m.pb", "checksum": "sha256:1", **names}
    other = ({"name": "tensorflow", "model": web},)
    found = sent(tmp_path, frameworks=other, graph_path="m.pb", **names)
    assert put == [{"m.pb": "m.pb", "names.txt": "names.txt"}, "names.txt"]
    assert found["outputs"][0]["steps"][0]["labels"] == "names.txt"
    addresses = {"names.txt": "artifact://models/names.txt"}
    away = {**web, "assets": {"names.txt": "sha256:names"}, "addresses": addresses}
    assert found["frameworks"][0]["model"] == away


def test_a_graph_here_keeps_its_name_beside_weights_elsewhere(
    tmp_path: Path, put: list[Any]
) -> None:
    web = "https://e.org/w"
    found = sent(tmp_path, graph_path="m.pb", weights_path=web, weights_checksum="sha256:1")
    assert put == ["m.pb"]
    assert (found["model"]["graph_path"], found["model"]["checksum"]) == ("m.pb", "sha256:m")
    assert found["model"]["addresses"] == {"m.pb": "artifact://models/m.pb"}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"assets": {"OUT": ""}}, r"model\.assets\.\S+"),
        ({"graph_path": "file://OUT"}, r"model\.graph_path"),
        ({"graph_path": "../out.txt"}, r"model\.graph_path"),
        ({"base_url": "file:..", "weights_path": "out.txt"}, r"model\.weights_path"),
        ({"archive": "OUT"}, r"model\.archive"),
        ({"graph_path": "link"}, r"model\.graph_path"),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_nothing_goes_from_outside_the_manifests_folder(
    tmp_path: Path, put: list[Any], command: str, given: dict[str, Any], field: str
) -> None:
    out = tmp_path / "out.txt"
    out.write_text("private")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link").symlink_to(out)
    told = json.loads(json.dumps(given).replace("OUT", str(out)))
    with pytest.raises(Misused, match=rf"mine\.yml: {field}: .*out\.txt, allowed: a file below"):
        sent(tmp_path / "own", command=command, **told)
    assert put == []


@pytest.mark.parametrize("name", [".ssh/id_rsa", ".env", "link"])
@pytest.mark.parametrize("command", ["run", "plan"])
def test_no_hidden_file_goes(tmp_path: Path, put: list[Any], command: str, name: str) -> None:
    """Somebody else may have written the manifest that lies in one's home."""
    (tmp_path / ".ssh").mkdir()
    for hidden in (".ssh/id_rsa", ".env"):
        (tmp_path / hidden).write_text("private")
    (tmp_path / "link").symlink_to(tmp_path / ".env")
    with pytest.raises(Misused, match=rf"mine\.yml: model\.\S+: {name} is hidden, allowed"):
        sent(tmp_path, command=command, assets={name: ""})
    assert put == []


def test_an_absolute_path_below_the_manifests_folder_goes(tmp_path: Path, put: list[Any]) -> None:
    name = f"file://{tmp_path}/m.pb"
    assert sent(tmp_path, graph_path=name)["model"]["addresses"] == {name: "artifact://models/m.pb"}


def test_a_folder_with_a_link_out_of_it_is_refused(tmp_path: Path, put: list[Any]) -> None:
    (tmp_path / "blob").write_text("x")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "linked").symlink_to(tmp_path / "blob")
    with pytest.raises(Misused, match=r"leads out of .*cp -rL"):
        sent(tmp_path, graph_path="saved")
    assert put == []


def test_files_of_a_plan_stay_and_are_known(tmp_path: Path, put: list[Any]) -> None:
    found = sent(tmp_path, command="plan", graph_path="m.pb", assets={"names.txt": "sha256:1"})
    digest = hashlib.sha256(b"m.pb").hexdigest()
    assert found["model"] == {
        "graph_path": "m.pb",
        "checksum": f"sha256:{digest}",
        "assets": {"names.txt": "sha256:1"},
    }
    assert put == []
    with pytest.raises(Misused, match=r"model: saved is a folder"):
        sent(tmp_path, command="plan", graph_path="saved")


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
