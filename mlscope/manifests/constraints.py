"""Version constraints: PEP 440, and the papers' form with spaces. Pure."""

import re
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from mlscope.manifests.errors import BadConstraint

CONSTRAINTS = ">=1.12.0 <2.0, ==1.15.* or 1.15"
"""Examples of constraints, for errors."""

_LONGEST = 256
_OPERATOR = re.compile(r"(===|==|~=|!=|<=|>=|<|>)\s*")


def constraint_of(text: str) -> SpecifierSet:
    """Return a constraint: `>=1.12.0 <2.0`, `>=1.12,<2`, `==1.15.*`, or `1.15` for just that.

    An empty text allows any version. Raises BadConstraint, also for more than 256 characters, as
    an evaluation is matched against every agent.
    """
    if len(text) > _LONGEST:
        raise BadConstraint(f"{text[:40]}…")
    joined = _OPERATOR.sub(r"\1", text.strip())
    parts = [part for part in re.split(r"[\s,]+", joined) if part and part != "*"]
    parts = [f"=={part}" if part[0].isalnum() else part for part in parts]
    try:
        return SpecifierSet(",".join(parts))
    except InvalidSpecifier as error:
        raise BadConstraint(text) from error


def satisfies(version: str, constraint: SpecifierSet) -> bool:
    """Return whether a version satisfies a constraint.

    A version that is not one of PEP 440 satisfies only an equal `===`, or an empty constraint.
    """
    parsed = _parse_version(version)
    if parsed is not None:
        return constraint.contains(parsed, prereleases=True)
    return all(part.operator == "===" and part.version == version for part in constraint)


def meet(first: SpecifierSet, second: SpecifierSet) -> bool:
    """Return whether some version may satisfy both constraints.

    Tries the bounds of both, and versions just below and above each bound.
    """
    bounds = [part.version.removesuffix(".*") for part in (*first, *second)]
    candidates = [f"{bound}{end}" for bound in bounds for end in ("", ".dev0", ".0.1")]
    return any(
        satisfies(version, first) and satisfies(version, second)
        for version in (*candidates, "0", "1")
    )


def version_order(version: str) -> tuple[int, Version | str]:
    """Return a key that sorts versions, the newest last, those of PEP 440 above others."""
    parsed = _parse_version(version)
    return (0, version) if parsed is None else (1, parsed)


def _parse_version(text: str) -> Version | None:
    """Return a version of PEP 440, or None for another text or one with too many digits."""
    # A few versions are met again with each model and agent; long ones would stay in memory.
    return _read_version(text) if len(text) > _LONGEST else _remembered_version(text)


@lru_cache(maxsize=4096)
def _remembered_version(text: str) -> Version | None:
    return _read_version(text)


def _read_version(text: str) -> Version | None:
    try:
        return Version(text)
    except ValueError:
        return None
