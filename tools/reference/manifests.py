"""The page of manifests: the fields of models, datasets and scenarios, and the steps there are."""

import inspect

from schemas.manifest import (
    Assets,
    DatasetManifest,
    FrameworkManifest,
    ModelManifest,
    Port,
    ScenarioManifest,
    Source,
    Step,
)
from schemas.message import Message
from schemas.operators import OPERATORS
from tools.reference.markdown import code, table
from tools.reference.types import type_text

_HEAD = """# Manifests

A manifest is a YAML file. `mlscope manifest check FILE` reports every fault with its line;
`schemas/v1/manifest.json` lets an editor do the same while you type.

"""
_KINDS: tuple[type[Message], ...] = (
    ModelManifest,
    Port,
    Step,
    Assets,
    FrameworkManifest,
    DatasetManifest,
    Source,
    ScenarioManifest,
)


def manifests_page() -> str:
    """Return the page as Markdown."""
    steps = (
        (code(operator), ", ".join(map(code, parameters)))
        for operator, parameters in sorted(OPERATORS.items())
    )
    kinds = []
    for kind in _KINDS:
        rows = (
            (code(name), code(type_text(field.annotation)), field.description or "")
            for name, field in kind.model_fields.items()
        )
        doc = inspect.getdoc(kind) or ""
        fields = table(("Field", "Type", "Meaning"), rows)
        kinds.append(f"## {kind.__name__}\n\n{doc}\n\n{fields}\n")
    return f"{_HEAD}{''.join(kinds)}\n## Steps\n\n{table(('Operator', 'Parameters'), steps)}"
