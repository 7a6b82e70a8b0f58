"""Exported programs and TorchScript that would run code of their own, and those that do not."""

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from schemas.manifest import Assets, ModelManifest  # noqa: E402
from services.agent.errors import OpenFailed  # noqa: E402
from services.agent.predictors import OpenRequest  # noqa: E402
from services.agent.predictors.pytorch.archive import is_arithmetic, load_exported  # noqa: E402
from services.agent.predictors.pytorch.predictor import open_model  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


class Scaled(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """A net with sizes that are only known when it runs."""

    def forward(self, x: Any) -> Any:
        """Return the rows in one, doubled."""
        return x.reshape(x.shape[0] * 3) * 2


class Evil:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def exported() -> bytes:
    body = io.BytesIO()
    sizes = ({0: torch.export.Dim("batch", min=1, max=64)},)
    program = torch.export.export(Scaled(), (torch.ones(2, 3),), dynamic_shapes=sizes)
    torch.export.save(program, body)
    return body.getvalue()


def changed(body: bytes, member: str, change: Callable[[bytes], bytes]) -> bytes:
    """Return an archive with one of its members changed, or added."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        top = names[0].split("/")[0]
        for name in names:
            found = old.read(name)
            new.writestr(name, change(found) if name == f"{top}/{member}" else found)
        if f"{top}/{member}" not in names:
            new.writestr(f"{top}/{member}", change(b""))
    return out.getvalue()


def opened(body: bytes, name: str = "net.pt2") -> Any:
    model = ModelManifest.model_validate(
        {
            "name": "net",
            "version": "1.0.0",
            "framework": {"name": "pytorch"},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, 3]}],
            "outputs": [{"type": "raw", "layer_name": "scores"}],
            "model": Assets(graph_path=name),
        }
    )
    options = {"threads": 1}
    return open_model(
        OpenRequest(model, batch_size=2, options=options, graph=body, graph_path=Path(name))
    )


def test_sizes_known_only_at_run_time_pass(exported: bytes) -> None:
    assert load_exported(exported)(torch.ones(5, 3)).tolist() == [2.0] * 15


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("is_torch", [True, False])
def test_a_pickle_in_an_exported_program_is_not_run(
    exported: bytes, tmp_path: Path, is_torch: bool, protocol: int
) -> None:
    body, made = io.BytesIO(), tmp_path / "made"
    save: Any = torch.save if is_torch else pickle.dump
    save((Evil(made),), body, **{"pickle_protocol" if is_torch else "protocol": protocol})
    bad = changed(exported, "data/sample_inputs/model.pt", lambda _: body.getvalue())
    with pytest.raises(OpenFailed, match=r"model\.pt is a pickle"):
        opened(bad)
    assert not made.exists()


@pytest.mark.parametrize("name", ["opaque_obj_0", "OPAQUE_OBJ_0", "custom_obj_0"])
def test_a_pickled_constant_is_not_run(exported: bytes, tmp_path: Path, name: str) -> None:
    made = tmp_path / "made"
    body = pickle.dumps(Evil(made))
    constant = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True}
    told = {"config": {"c": {**constant, "tensor_meta": None}}}
    file = "data/constants/model_constants_config.json"
    bad = changed(exported, f"data/constants/{name}", lambda _: body)
    bad = changed(bad, file, lambda _: json.dumps(told).encode())
    with pytest.raises(OpenFailed, match="refused"):
        opened(bad)
    assert not made.exists()


def test_a_pickled_weight_is_not_run(exported: bytes, tmp_path: Path) -> None:
    body, made = io.BytesIO(), tmp_path / "made"
    torch.save(Evil(made), body)
    weight = {"path_name": "weight_0", "is_param": True, "use_pickle": True, "tensor_meta": None}
    told = json.dumps({"config": {"w": weight}}).encode()
    bad = changed(exported, "data/weights/weight_0", lambda _: body.getvalue())
    bad = changed(bad, "data/weights/model_weights_config.json", lambda _: told)
    with pytest.raises(OpenFailed):
        opened(bad)
    assert not made.exists()


def test_a_size_is_no_python(exported: bytes, tmp_path: Path) -> None:
    made = tmp_path / "made"
    spelt = "+".join(f"chr({ord(each)})" for each in f"__import__('pathlib').Path({str(made)!r})")
    size = f"eval({spelt}).touch()"

    def swap(body: bytes) -> bytes:
        told = json.loads(body)
        values = told["graph_module"]["graph"]["tensor_values"]
        values["x"]["sizes"][0]["as_expr"]["expr_str"] = size
        return json.dumps(told).encode()

    with pytest.raises(OpenFailed, match="could run as code"):
        opened(changed(exported, "models/model.json", swap))
    assert not made.exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("guards_code", ["print(1)"]),
        ("guards_code", ["L['x'].__class__ == 1"]),
        ("name", "x=print()"),
        ("target", "torch.os.system"),
        ("target", "torch.ops.load_library.x"),
        ("in_spec", '[1, {"context": "{\\"default_factory_module\\": \\"antigravity\\"}"}]'),
    ],
)
def test_texts_that_become_code_are_refused(exported: bytes, key: str, value: Any) -> None:
    def add(body: bytes) -> bytes:
        return json.dumps({**json.loads(body), "more": {key: value}}).encode()

    with pytest.raises(OpenFailed, match="refused"):
        opened(changed(exported, "models/model.json", add))


def test_compiled_code_and_the_old_form_are_refused(exported: bytes) -> None:
    bad = changed(exported, "data/aotinductor/model/a.so", lambda _: b"x")
    with pytest.raises(OpenFailed, match="compiled code"):
        opened(bad)
    old = io.BytesIO(exported)
    with zipfile.ZipFile(old, "a") as archive:
        archive.writestr("version", "8.2")
    with pytest.raises(OpenFailed, match=r"PyTorch 2\.7 or older"):
        opened(old.getvalue())


def test_a_pickle_in_torchscript_is_not_run(tmp_path: Path) -> None:
    body, made = io.BytesIO(), tmp_path / "made"
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), body)
    bad = changed(body.getvalue(), "data.pkl", lambda _: pickle.dumps(Evil(made), 2))
    with pytest.raises(OpenFailed):
        opened(bad, "net.pt")
    assert not made.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3*s0 + 1", True),
        ("Max(1, s0//2)", True),
        ("L['x'].size()[0] >= 2", True),
        ("__import__('os').system('id')", False),
        ("s0.__class__", False),
        ("eval('1')", False),
        ("[s0 for s0 in (1, 2)]", False),
        ("lambda: 1", False),
        ("1\n+1", False),
        ("1 +", False),
        ("b'1'", False),
    ],
)
def test_only_expressions_of_sizes_are_arithmetic(text: str, expected: bool) -> None:
    assert is_arithmetic(text) is expected
