"""Make model.onnx: one Identity node, `x` float32 [N, 4] to `y`. Usage: python make.py [TARGET]."""

import sys
from hashlib import sha256
from pathlib import Path

import onnx
from onnx import helper


def identity() -> onnx.ModelProto:
    """Return the model; what it costs is what a framework's call costs."""
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 4])
    node = helper.make_node("Identity", ["x"], ["y"], "identity")
    graph = helper.make_graph([node], "identity", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def main(target: Path) -> None:
    """Write `target` and print its checksum."""
    model = identity()
    onnx.checker.check_model(model, full_check=True)
    target.write_bytes(model.SerializeToString(deterministic=True))
    print(f"sha256:{sha256(target.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("model.onnx"))
