"""`mlscope artifacts put|ls|rm` and `mlscope models fetch`, against real servers."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cli import exits
from cli.cluster.servers.nats_server import NatsServer
from mlscope.provision import provision
from tests.cli.conftest import CommandLine, key_settings
from tests.mlscope.assets.web_server import serving

BODY = b"weights" * 1000
SUM = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
async def curating(nats_server: NatsServer, tmp_path: Path) -> CommandLine:
    """Return a command line with the curator's key."""
    await provision(key_settings(nats_server, "provisioner"))
    return CommandLine(
        MLSCOPE_NATS_URL=nats_server.url,
        MLSCOPE_NATS_SEED_FILE=str(nats_server.seed_files["curator"]),
        MLSCOPE_DATA=str(tmp_path),
        no_proxy="127.0.0.1",
    )


def a_model(folder: Path, **assets: str) -> str:
    """Write a manifest whose weights are elsewhere and return its path."""
    path = folder / "m.yml"
    port = {"type": "raw", "layer_name": "x", "shape": [-1, 4]}
    manifest: dict[str, object] = {
        "name": "m",
        "version": "1.0.0",
        "framework": {"name": "pytorch"},
    }
    manifest["inputs"] = manifest["outputs"] = [port]
    manifest["model"] = {"builder": "a.b", **assets}
    path.write_text(yaml.safe_dump(manifest))
    return str(path)


async def test_a_file_is_put_listed_and_removed(curating: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(BODY)
    put = await curating("artifacts", "put", str(tmp_path / "w.pth"), "m/w.pth")
    assert put.out == f"artifact://m/w.pth  sha256:{SUM}\n", put.err
    listed = (await curating("artifacts", "ls", "-o", "json")).json()
    assert listed == [{"artifact": "m/w.pth", "size_bytes": len(BODY), "sha256": SUM}]
    assert (await curating("artifacts", "rm", "m/w.pth")).code == exits.OK
    again = await curating("artifacts", "rm", "m/w.pth")
    assert (again.code, "has nothing of this name" in again.err) == (exits.FAILED, True)


async def test_a_file_that_was_put_is_fetched(curating: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(BODY)
    assert (await curating("artifacts", "put", str(tmp_path / "w.pth"), "m/w.pth")).code == exits.OK
    model = a_model(tmp_path, weights_path="artifact://m/w.pth")
    fetched = await curating("models", "fetch", model)
    cached = tmp_path / "cache" / "sha256" / SUM[:2] / SUM[2:]
    assert fetched.out == f"{cached}  sha256:{SUM}\n", fetched.err
    assert cached.read_bytes() == BODY
    assert "artifact://m/w.pth  7 kB" in fetched.err


async def test_who_only_asks_changes_no_artifact(
    curating: CommandLine, mlscope: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "w").write_bytes(BODY)
    assert (await mlscope("artifacts", "put", str(tmp_path / "w"))).code == exits.AUTH
    bad = await curating("artifacts", "put", str(tmp_path / "w"), "a//b")
    assert (bad.code, "name" in bad.err) == (exits.USAGE, True)


def without_cluster(tmp_path: Path, **environment: str) -> CommandLine:
    return CommandLine(MLSCOPE_DATA=str(tmp_path), no_proxy="127.0.0.1", **environment)


async def test_a_model_is_fetched_from_the_web_without_a_cluster(tmp_path: Path) -> None:
    alone = without_cluster(tmp_path, MLSCOPE_FETCH_HOSTS="127.0.0.1")
    with serving() as site:
        url = site.put("/w.pth", BODY)
        model = a_model(tmp_path, weights_path=url, weights_checksum=f"sha256:{SUM}")
        for _ in range(2):
            fetched = await alone("models", "fetch", model)
            assert fetched.out.endswith(f"sha256:{SUM}\n"), fetched.err
        assert len(site.asked) == 1


async def test_another_sum_and_a_private_host_are_refused(tmp_path: Path) -> None:
    alone = without_cluster(tmp_path, MLSCOPE_FETCH_HOSTS="127.0.0.1")
    elsewhere = without_cluster(tmp_path)
    with serving() as site:
        url = site.put("/w.pth", BODY)
        wrong = a_model(tmp_path, weights_path=url, weights_checksum="0" * 64)
        refused = await alone("models", "fetch", wrong)
        private = await elsewhere("models", "fetch", wrong)
    assert (refused.code, SUM in refused.err) == (exits.FAILED, True)
    assert (private.code, "MLSCOPE_FETCH_HOSTS" in private.err) == (exits.FAILED, True)


async def test_what_nobody_can_verify_is_fetched_and_said_to_be_so(tmp_path: Path) -> None:
    with serving() as site:
        site.put("/o/r/resolve/main/w.pth", BODY)
        alone = CommandLine(MLSCOPE_DATA=str(tmp_path), MLSCOPE_HUB_URL=site.url)
        hub = {"weights_path": "hf://o/r@main/w.pth"}
        fetched = await alone("models", "fetch", a_model(tmp_path, **hub, unverifiable="a branch"))
        assert fetched.out.endswith(f"sha256:{SUM}\n"), fetched.err
        assert "hf://o/r@main/w.pth: no checksum in the manifest" in fetched.err
        silent = await alone("models", "fetch", a_model(tmp_path, **hub))
    assert (silent.code, "unverifiable" in silent.err) == (exits.USAGE, True)


async def test_a_shipped_model_needs_nothing(tmp_path: Path) -> None:
    alone = CommandLine(MLSCOPE_DATA=str(tmp_path))
    fetched = await alone("models", "fetch", "identity")
    assert (fetched.code, fetched.out) == (exits.OK, "")
    assert "nothing to fetch" in fetched.err
    unknown = await alone("models", "fetch", "identiti")
    assert (unknown.code, "identity" in unknown.err) == (exits.USAGE, True)


def test_a_fetch_shows_a_bar_on_a_terminal(tmp_path: Path) -> None:
    body = BODY * 150
    master, terminal = os.openpty()
    with serving() as site, os.fdopen(master, "rb", buffering=0) as shown:
        site.rest_s = 0.3
        sha256 = f"sha256:{hashlib.sha256(body).hexdigest()}"
        model = a_model(tmp_path, weights_path=site.put("/w.pth", body), weights_checksum=sha256)
        own = {"MLSCOPE_DATA": str(tmp_path), "MLSCOPE_FETCH_HOSTS": "127.0.0.1"}
        environ = {**os.environ, **own, "no_proxy": "127.0.0.1"}
        command = [sys.executable, "-m", "cli.main", "models", "fetch", model]
        subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=terminal, check=True)
        os.close(terminal)
        text = shown.read(65536).decode()
    assert re.search(r"w\.pth  \[#+\.+\] [\d.]+ kB of 1\.05 MB", text), text
    assert text.endswith("w.pth  1.05 MB\r\n")
