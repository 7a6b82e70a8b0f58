"""Values put into a YAML text, which keeps its comments, order and layout. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

Path = tuple[str | int, ...]
_MISSING = object()


def differences(before: Any, after: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield path and value of what `after` has and `before` has not, or has otherwise.

    Both are maps, lists and scalars, as of JSON; `path` is where they are. A list of another length
    is one value.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name, value in after.items():
            yield from differences(before.get(name, _MISSING), value, (*path, name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (item_before, item_after) in enumerate(zip(before, after, strict=True)):
            yield from differences(item_before, item_after, (*path, place))
    elif before != after:
        yield path, after


def spliced(text: str, changes: Iterator[tuple[Path, Any]]) -> str:
    """Return a YAML `text` with values set: `changes` are their paths and the values.

    Values are written on one line each. A new key stands before the first one of its
    map. Raises LookupError where a path has no map, yaml.YAMLError.
    """
    root = yaml.compose(text, yaml.SafeLoader)
    edits: list[tuple[int, int, str]] = []
    for path, value in changes:
        parent, name = _parent(root, path), path[-1]
        node = _entry(parent, name)
        if node is not None:
            edits.append((node.start_mark.index, node.end_mark.index, _in_flow(value)))
            continue
        if not isinstance(parent, yaml.MappingNode) or not parent.value:
            raise LookupError(path)
        first = parent.value[0][0].start_mark
        between = ", " if parent.flow_style else "\n" + " " * first.column
        entry = f"{_in_flow(name)}: {_in_flow(value)}{between}"
        edits.append((first.index, first.index, entry))
    for begin, end, written in sorted(edits, reverse=True):
        text = text[:begin] + written + text[end:]
    return text


def _in_flow(value: Any) -> str:
    """Return a value as YAML on one line, which may stand between braces."""
    listed: str = yaml.safe_dump(
        [value], default_flow_style=True, allow_unicode=True, width=1 << 30
    )
    return listed.strip()[1:-1]


def _parent(root: Any, path: Path) -> Any:
    """Return the node around the last step of a `path`. Raises LookupError."""
    node = root
    for step in path[:-1]:
        node = _entry(node, step)
        if node is None:
            raise LookupError(path)
    return node


def _entry(node: Any, step: str | int) -> Any:
    """Return the node at a step of a path, None if there is none."""
    if isinstance(node, yaml.SequenceNode):
        return node.value[step]
    entries = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in entries if key.value == step), None)
