"""Version constraints: PEP 440, and the papers' form with spaces. Pure."""

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from services.scheduler.errors import BadConstraint

_OPERATOR = re.compile(r"(===|==|~=|!=|<=|>=|<|>)\s*")


def constraint_of(text: str) -> SpecifierSet:
    """Return a constraint: `>=1.12.0 <2.0`, `>=1.12,<2`, `==1.15.*`, or `1.15` for just that.

    Empty is any version. Raises BadConstraint.
    """
    joined = _OPERATOR.sub(r"\1", text.strip())
    parts = [part for part in re.split(r"[\s,]+", joined) if part and part != "*"]
    parts = [f"=={part}" if part[0].isalnum() else part for part in parts]
    try:
        return SpecifierSet(",".join(parts))
    except InvalidSpecifier as error:
        raise BadConstraint(text) from error


def satisfies(version: str, constraint: SpecifierSet) -> bool:
    """Tell whether a version fits; what is no PEP 440 version fits only the empty constraint."""
    try:
        return constraint.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return not str(constraint)


def newest_first(version: str) -> tuple[int, Version | str]:
    """Return a key that sorts versions, those of PEP 440 above others."""
    try:
        return (1, Version(version))
    except InvalidVersion:
        return (0, version)
