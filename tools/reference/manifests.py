"""The page of manifests: the fields of models, datasets and scenarios, and the steps there are."""

import inspect

from pydantic.fields import FieldInfo

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
from schemas.manifest.operators import OPERATORS
from schemas.message import Message
from tools.reference.field_meanings import MEANINGS
from tools.reference.markdown import code, table
from tools.reference.types import default_text, field_comments, type_text

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
        meanings = {**field_comments(kind), **MEANINGS.get(kind.__name__, {})}
        rows = (
            (code(name), code(type_text(field.annotation)), _default(field), meanings[name])
            for name, field in kind.model_fields.items()
        )
        doc = inspect.getdoc(kind) or ""
        fields = table(("Field", "Type", "Default", "Meaning"), rows)
        kinds.append(f"## {kind.__name__}\n\n{doc}\n\n{fields}\n")
    return f"{_HEAD}{''.join(kinds)}\n## Steps\n\n{table(('Operator', 'Parameters'), steps)}"


def _default(field: FieldInfo) -> str:
    """Return the default of a field as Markdown; '' if it is empty, or a message of defaults."""
    if field.is_required():
        return "**required**"
    default = field.get_default(call_default_factory=True)
    is_shown = default or isinstance(default, int | float)
    return code(default_text(default)) if is_shown and not isinstance(default, Message) else ""
