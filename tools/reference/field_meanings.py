"""Meanings of manifest fields that need no comment in the schema, for the reference."""

from collections.abc import Mapping
from types import MappingProxyType

MEANINGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Step": {
            "operator": "operator of the table below, or of a package on the agent",
            "parameters": "parameters of the operator",
        },
        "Port": {
            "type": "modality, as `image`, `text`, `raw` or `classification`",
            "layer_name": "name of the input or output in the model's file",
            "element_type": "element type of the tensor",
            "shape": "dimensions, the batch first; -1 is any size",
            "steps": "steps before the model for an input, after it for an output",
            "description": "a sentence for people",
        },
        "Assets": {
            "base_url": "address that the other paths are relative to",
            "graph_path": "file of the model: its graph, or graph and weights",
            "weights_path": "file of the weights if the graph has none",
            "checksum": "checksum of `graph_path`; `graph_checksum` is another name",
            "weights_checksum": "checksum of `weights_path`",
            "archive": "archive that contains the other files",
            "archive_checksum": "checksum of `archive`",
            "seed": "seed of random weights",
        },
        "ModelManifest": {
            "kind": "what the manifest describes",
            "name": "name in requests",
            "version": "version, as `1.0.0`",
            "task": "task, as `image classification`",
            "description": "a sentence for people",
            "framework": "framework of the first variant, as `pytorch:>=2.4`",
            "frameworks": "the same model on further frameworks",
            "license": "licence of the model",
            "references": "addresses of papers and sources",
            "inputs": "inputs of the model",
            "outputs": "outputs of the model",
            "before_preprocess": "inline Python before `preprocess`",
            "preprocess": "inline Python instead of the inputs' steps",
            "after_preprocess": "inline Python after `preprocess`",
            "before_postprocess": "inline Python before `postprocess`",
            "postprocess": "inline Python instead of the outputs' steps",
            "after_postprocess": "inline Python after `postprocess`",
            "model": "files of the model, or its builder",
            "attributes": "further facts for people, by name",
            "hidden": "whether lists leave the model out",
        },
        "FrameworkManifest": {
            "kind": "what the manifest describes",
            "name": "name of the framework",
            "version": "version of the build",
            "description": "a sentence for people",
            "containers": "images by architecture and device",
        },
        "Source": {
            "address": "address of the dataset: `https:`, `file:`, `artifact:`, `pypi:` or `hf:`",
            "reader": "name of the reader",
            "checksum": "checksum of the file at the address",
            "archive": "whether the address is an archive",
            "path": "path of the dataset in an archive; '' is all of it",
            "options": "options of the reader",
        },
        "DatasetManifest": {
            "kind": "what the manifest describes",
            "name": "name in requests",
            "version": "version, as `1.0.0`",
            "description": "a sentence for people",
            "license": "licence of the samples",
            "modality": "modality of the samples, as `image` or `text`",
            "samples": "samples that the manifest lists",
            "source": "a dataset at an address",
            "synthetic": "random tensors",
        },
        "ScenarioManifest": {
            "kind": "what the manifest describes",
            "name": "name in requests",
            "version": "version, as `1.0.0`",
            "description": "a sentence for people, with the final performance result",
            "parameters": "default of each parameter",
        },
    }
)
"""What a field is, by the class of its manifest and its name."""
