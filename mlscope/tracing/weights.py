"""Names of spans for a model's weights while it is opened, module by module.

A span `weights.load NAME` times reading a module's own weights, `weights.place NAME` moving them to
the device. A sample with the same name and start has the number of bytes.
"""

LOAD, PLACE = "load", "place"
_PREFIX = "weights."


def weights_name(action: str, module: str) -> str:
    """Return the name of a span of `LOAD` or `PLACE`."""
    return f"{_PREFIX}{action} {module}"


def weights_prefix(action: str) -> str:
    """Return the beginning of the names of such spans, before the module's name."""
    return weights_name(action, "")
