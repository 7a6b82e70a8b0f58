"""`mlscope serve` and `provision`: what is wrong with their settings ends them with a sentence."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from cli import exits
from cli.cluster.ports import free_port
from cli.cluster.servers.nats_server import NatsServer
from cli.commands.serve import _AnnouncingBus, _traced
from mlscope.bus.bus import Bus
from mlscope.bus.records import ServiceInfo
from mlscope.health import Announced
from mlscope.settings import InvalidSetting, Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from tests.cli.conftest import CommandLine, ended
from tests.stand_ins import StandIns


@pytest.mark.parametrize("words", [("serve", "registry"), ("provision",)])
async def test_a_setting_that_cannot_be_is_named(words: tuple[str, ...]) -> None:
    end = await CommandLine(MLSCOPE_LEASE_TTL_S="soon")(*words)
    assert end.code == exits.USAGE
    assert "MLSCOPE_LEASE_TTL_S=soon: expected" in end.err


SERVED = """
import argparse, asyncio, os
from cli.commands import serve

async def count_threads(name, settings):
    import numpy
    print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))

serve.serve_until_stopped = count_threads
serve.serve(argparse.Namespace(service="{service}"))
"""


@pytest.mark.parametrize(("service", "threads"), [("collector", "1 1"), ("agent", "None")])
def test_numpy_starts_threads_for_workers_alone(service: str, threads: str) -> None:
    environ = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    script = [sys.executable, "-c", SERVED.format(service=service)]
    done = subprocess.run(script, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(threads)


async def test_a_service_nobody_knows_is_no_service() -> None:
    end = await CommandLine()("serve", "regisry")
    assert (end.code, "did you mean registry?" in end.err) == (exits.USAGE, True)


async def test_a_service_is_ready_once_it_is_announced_and_ends_when_told(
    nats_server: NatsServer, standing: StandIns, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    ready.write_text("of an earlier start")
    port = free_port()
    serve = CommandLine(
        MLSCOPE_NATS_URL=nats_server.url,
        MLSCOPE_NATS_SEED_FILE=str(nats_server.seed_files["registry"]),
        MLSCOPE_READY_FILE=str(ready),
        MLSCOPE_UNHEARD_OF="1",
        MLSCOPE_METRICS_PORT=str(port),
        MLSCOPE_RESTARTS="2",
        MLSCOPE_LOG_FORMAT="json",
    )
    process = await serve.start("serve", "registry")
    assert process.stderr is not None
    said = b""
    while b"MLSCOPE_UNHEARD_OF" not in said:
        said = await process.stderr.readline()
    assert json.loads(said)["service"] == "registry"
    await _made_anew(ready)
    async with httpx.AsyncClient() as web:
        figures = (await web.get(f"http://127.0.0.1:{port}/metrics")).text
    (restarts,) = [line for line in figures.splitlines() if line.startswith("mlscope_restarts")]
    assert 'service="registry"' in restarts
    assert restarts.endswith(" 2.0")
    assert "mlscope_messages_sent_total{" in figures
    process.send_signal(signal.SIGTERM)
    assert (await ended(process)).code == exits.OK


async def _made_anew(path: Path) -> None:
    for _ in range(1200):
        if _is_new(path):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} was never made")


def _is_new(path: Path) -> bool:
    return Announced.read(path) is not None


async def test_what_a_service_has_when_it_is_ready_is_never_garbage() -> None:
    catalog = [["a manifest"]]
    async with connect(MemoryServer(), "registry") as bus:
        announcing = _AnnouncingBus(bus, Settings.read({}))
        await announcing.announce(ServiceInfo("registry", "1.0.0", "Knows.", {}), dict)
        assert not any(searched is catalog for searched in gc.get_objects())


async def test_without_the_setting_for_telemetry_a_service_has_its_own_bus() -> None:
    bus: Any = object()
    async with _traced(cast("Bus", bus), Settings.read(os.environ)) as own:
        assert own is bus


@pytest.mark.parametrize(
    "missing", ["opentelemetry", "opentelemetry.exporter.otlp.proto.http.trace_exporter"]
)
async def test_telemetry_without_its_packages_is_refused_with_advice(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of OpenTelemetry is missing, or this exporter while another one is there."""
    hidden = [name for name in sys.modules if f"{name}.".startswith(f"{missing}.")]
    for name in {missing, *hidden}:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("mlscope.telemetry.bus", "mlscope.telemetry.tracer"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    settings = Settings.read({"MLSCOPE_TELEMETRY_URL": "http://127.0.0.1:4318"})
    async with connect(MemoryServer(), "agent") as bus:
        with pytest.raises(InvalidSetting, match=r"pip install 'mlscope\[telemetry\]'"):
            await _traced(bus, settings).__aenter__()
