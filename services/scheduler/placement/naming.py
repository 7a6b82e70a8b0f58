"""Comparable names of hardware and frameworks. Pure."""

import re
from functools import lru_cache

_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "powerpc64le": "ppc64le"}


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """Return a comparable name of hardware: `Tesla  V100-SXM2` is `tesla v100 sxm2`."""
    return " ".join(re.split(r"[\s_-]+", name.casefold())).strip()


def is_same(framework: str, second: str) -> bool:
    """Tell whether two names are of one framework: case and surrounding space do not count."""
    return framework.strip().lower() == second.strip().lower()


@lru_cache(maxsize=4096)
def architecture_of(name: str) -> str:
    """Return one name for an architecture that has several."""
    lower = name.strip().lower()
    return _ARCHITECTURES.get(lower, lower)
