"""Version constraints: PEP 440, and the papers' form with spaces. Pure."""

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from mlscope.manifests.errors import BadConstraint

CONSTRAINTS = ">=1.12.0 <2.0, ==1.15.* or 1.15"
"""Examples of what a constraint may be, for whoever wrote none."""

_LONGEST = 256
_OPERATOR = re.compile(r"(===|==|~=|!=|<=|>=|<|>)\s*")


def constraint_of(text: str) -> SpecifierSet:
    """Return a constraint: `>=1.12.0 <2.0`, `>=1.12,<2`, `==1.15.*`, or `1.15` for just that.

    Empty is any version. Raises BadConstraint, also for a text of more than 256 characters: every
    look at an evaluation weighs it against every agent.
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
    """Tell whether a version fits; what is no PEP 440 version fits only `===` itself, or any."""
    known = _version(version)
    if known is not None:
        return constraint.contains(known, prereleases=True)
    return all(each.operator == "===" and each.version == version for each in constraint)


def meet(one: SpecifierSet, other: SpecifierSet) -> bool:
    """Tell whether some version may fit both: a bound of either, or one just below or above it."""
    bounds = [each.version.removesuffix(".*") for each in (*one, *other)]
    near = [f"{bound}{end}" for bound in bounds for end in ("", ".dev0", ".0.1")]
    return any(
        satisfies(version, one) and satisfies(version, other) for version in (*near, "0", "1")
    )


def newest_first(version: str) -> tuple[int, Version | str]:
    """Return a key that sorts versions, those of PEP 440 above others."""
    known = _version(version)
    return (0, version) if known is None else (1, known)


def _version(text: str) -> Version | None:
    """Return a version of PEP 440, or None for another text or one of absurdly many digits."""
    try:
        return Version(text)
    except ValueError:
        return None
