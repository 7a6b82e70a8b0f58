"""What keeps the reading of a YAML text within bounds that anybody may send. Pure."""

import re
from typing import Any, Final

import yaml

_MOST_DIRECTIVES = 100
"""libyaml compares each tag directive with all others."""
_MOST_NUMBER_CHARACTERS = 400
"""A number of sexagesimal digits takes the square of its length, and decimals end at 4,300."""
_MERGE = "tag:yaml.org,2002:merge"
_MOST_MERGES = 100
"""Of merges (`<<`) in one map PyYAML takes the square."""
_DIRECTIVE = re.compile("(?:^|[\r\n\x85\u2028\u2029])\ufeff?%")

READING_ERRORS: Final = (
    yaml.YAMLError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What reading a faulty text raises: PyYAML raises also KeyError for `!!bool x`, and the like."""


def check_bounds(text: str, most_depth: int, *, with_aliases: bool = True) -> None:
    """Check that a YAML `text` can be read with `loader()` within bounds.

    Lists and maps lie in each other up to `most_depth` deep; without `with_aliases` an alias is a
    fault. libyaml composes a list in a list by recursion, without an end: 100,000 of them end the
    process. Raises yaml.YAMLError, which may have a mark.
    """
    if len(_DIRECTIVE.findall(text)) > _MOST_DIRECTIVES:
        raise yaml.YAMLError(f"more than {_MOST_DIRECTIVES} directives")
    depth = 0
    for event in yaml.parse(text, _LOADER):
        mark: Any = event.start_mark
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent) and not with_aliases:
            raise yaml.MarkedYAMLError(problem="an alias", problem_mark=mark)
        if depth > most_depth:
            problem = f"more than {most_depth} lists and maps in each other"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def loader(text: str) -> Any:
    """Return the loader of a `text` that `check_bounds` passed: safe, without long numbers."""
    return _LOADER(text)


def _number(of_loader: Any, node: Any) -> int | float:
    if len(node.value) > _MOST_NUMBER_CHARACTERS:
        problem = f"a number of more than {_MOST_NUMBER_CHARACTERS} characters"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    is_whole = node.tag.endswith(":int")
    read = of_loader.construct_yaml_int if is_whole else of_loader.construct_yaml_float
    number: int | float = read(node)
    return number


def _merge_few(of_loader: Any, node: Any) -> None:
    if sum(key.tag == _MERGE for key, _ in node.value) > _MOST_MERGES:
        problem = f"more than {_MOST_MERGES} merges (<<) in a map"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    _SAFE_LOADER.flatten_mapping(of_loader, node)


_SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LOADER: Any = type("_Loader", (_SAFE_LOADER,), {"flatten_mapping": _merge_few})
for _tag in ("int", "float"):
    _LOADER.add_constructor(f"tag:yaml.org,2002:{_tag}", _number)
