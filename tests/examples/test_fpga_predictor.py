"""The example of a predictor of one's own: installed by pip, found by name, and used."""

import importlib
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.manifest import ModelManifest
from services.agent.errors import BadOption, OpenFailed, PredictFailed
from services.agent.host.announcing import installed_runtimes
from services.agent.predictors import OpenRequest, Predictor, predictor_named
from tests.examples.installing import install_fpga_predictor

WEIGHTS = np.random.default_rng(5).integers(-127, 127, (6, 4)).astype(np.int8)
SCALE = 0.5
BITFILE = struct.pack("<4sIIf", b"FPGA", *WEIGHTS.shape, SCALE) + WEIGHTS.tobytes()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package into a folder of its own."""
    folder = tmp_path_factory.mktemp("installed") / "packages"
    install_fpga_predictor(folder)
    return folder


@pytest.fixture
def installed(target: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(target))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("fpga_predictor", None)


def request(graph: bytes = BITFILE, **options: Any) -> OpenRequest:
    model = ModelManifest.model_validate(
        {
            "name": "fpga-dense",
            "version": "1.0.0",
            "framework": {"name": "fpga"},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, 6]}],
            "outputs": [{"type": "raw", "layer_name": "scores"}],
        }
    )
    return OpenRequest(model, Path("dense.bit"), graph, 3, options=options)


@pytest.fixture
def opened(installed: None) -> Iterator[Predictor]:
    predictor = predictor_named("fpga")(request())
    yield predictor
    predictor.close()


def test_an_agent_offers_it(installed: None) -> None:
    (runtime,) = installed_runtimes(("fpga",), ())
    assert (runtime.framework, runtime.devices) == ("fpga", ("fpga",))
    assert runtime.options == ("clock_mhz",)


def test_a_machine_without_a_board_is_not_offered(
    installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FPGA_EXAMPLE_BOARDS", "0")
    (runtime,) = installed_runtimes(("fpga",), ())
    assert (runtime.devices, runtime.device_reason) == ((), "its package finds no device here")


def test_predictions_are_those_of_the_matrix(opened: Predictor) -> None:
    rows = np.random.default_rng(1).standard_normal((3, 6)).astype(np.float32)
    expected = rows @ WEIGHTS.astype(np.float32) * SCALE
    found: Any = opened.predict({"x": rows})["scores"]
    # Rounding to 8 bits moves an input by half a step of its 127 at most.
    most = float(np.abs(rows).max() / 127 / 2 * np.abs(WEIGHTS.astype(int)).sum(0).max() * SCALE)
    assert np.abs(found - expected).max() <= most


def test_what_runs_is_said(opened: Predictor) -> None:
    told = opened.opened
    assert (told.device, told.precision) == ("fpga", "int8 (quantized float32)")
    assert told.options == {"clock_mhz": 200}
    assert min(told.load_ns, told.first_run_ns) > 0


def test_inputs_of_another_shape_are_an_error(opened: Predictor) -> None:
    for inputs in ({"x": np.zeros((3, 5), np.float32)}, {}):
        with pytest.raises(PredictFailed):
            opened.predict(inputs)


@pytest.mark.parametrize("graph", [b"", BITFILE[:-1], b"X" + BITFILE[1:]])
def test_what_is_no_bitfile_is_refused(installed: None, graph: bytes) -> None:
    with pytest.raises(OpenFailed, match="bitfile"):
        predictor_named("fpga")(request(graph))


def test_a_wrong_option_is_named(installed: None) -> None:
    with pytest.raises(BadOption, match="clock_mhz"):
        predictor_named("fpga")(request(clock_mhz=9000))


def test_a_closed_device_computes_no_more(installed: None) -> None:
    predictor = predictor_named("fpga")(request())
    predictor.close()
    with pytest.raises(PredictFailed, match="not configured"):
        predictor.predict({"x": np.zeros((3, 6), np.float32)})
