"""Manifests: models, frameworks, datasets, scenarios and machines as data, as in the catalog. Pure.

model.py       a model: assets, inputs, outputs, steps and inline code
operators.py   the operators of its steps, with their parameters
dataset.py     samples: files, a source, or synthetic tensors
machine.py     frameworks, scenarios, hardware and software
catalog.py     a manifest of any kind, and the facts of the catalog
"""

from schemas.manifest.catalog import Manifest, ManifestPublished, ManifestWithdrawn
from schemas.manifest.dataset import (
    DatasetManifest,
    Sample,
    SampleFile,
    Source,
    Synthetic,
    SyntheticTensor,
)
from schemas.manifest.machine import (
    FrameworkManifest,
    HardwareManifest,
    ScenarioManifest,
    SoftwareManifest,
)
from schemas.manifest.model import (
    CODE_FIELDS,
    PLACEHOLDERS,
    Assets,
    FrameworkField,
    FrameworkNeed,
    ModelManifest,
    Port,
    Step,
    StepField,
    Variant,
    step_of,
)

__all__ = [
    "CODE_FIELDS",
    "PLACEHOLDERS",
    "Assets",
    "DatasetManifest",
    "FrameworkField",
    "FrameworkManifest",
    "FrameworkNeed",
    "HardwareManifest",
    "Manifest",
    "ManifestPublished",
    "ManifestWithdrawn",
    "ModelManifest",
    "Port",
    "Sample",
    "SampleFile",
    "ScenarioManifest",
    "SoftwareManifest",
    "Source",
    "Step",
    "StepField",
    "Synthetic",
    "SyntheticTensor",
    "Variant",
    "step_of",
]
