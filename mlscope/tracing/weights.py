"""Names of spans that tell what a model's weights cost as it was opened, module by module.

A span `weights.load NAME` is of reading a module's own weights into it, `weights.place NAME` of
moving them to the device. A sample of the same name, at the same time, is how many bytes.
"""

LOAD, PLACE = "load", "place"
_PREFIX = "weights."


def weights_name(action: str, module: str) -> str:
    """Return the name of a span of `LOAD` or `PLACE`."""
    return f"{_PREFIX}{action} {module}"


def weights_prefix(action: str) -> str:
    """Return what the names of such spans begin with, before the module's."""
    return weights_name(action, "")
