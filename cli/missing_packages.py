"""A Python package that a command needs and that is not installed: which one, and how to get it."""

from collections.abc import Mapping
from types import MappingProxyType

MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "": ("msgpack", "numpy", "packaging", "pydantic", "yaml"),
        "charts": ("vl_convert",),
        "images": ("PIL",),
        "services": (
            "jinja2",
            "nats",
            "nkeys",
            "polars",
            "prometheus_client",
            "psycopg",
            "starlette",
            "uvicorn",
            "uvloop",
        ),
        "tls": ("cryptography",),
    }
)
"""Modules by the extra of mlscope that has them; '' is mlscope without extras."""
_OWN = frozenset({"cli", "mlscope", "schemas", "services"})


def missing_package_text(error: ImportError) -> str:
    """Return which package a failed import lacks and what installs it; '' for a defect of mlscope.

    `error` is what the import raised.
    """
    module = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not module or module in _OWN:
        return ""
    extra = next((extra for extra, modules in MODULES.items() if module in modules), None)
    package = module if extra is None else f"'mlscope[{extra}]'" if extra else "mlscope"
    return f"the Python package {module} is not installed here: pip install {package}"
