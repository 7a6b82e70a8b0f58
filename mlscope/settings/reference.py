"""What the settings are called and mean: for the reference, `--help` and the search for typos."""

from collections.abc import Mapping
from dataclasses import fields

from mlscope.settings.limits import Limits
from mlscope.settings.settings import Settings


def documentation() -> list[tuple[str, str, str]]:
    """Return (variable, default, meaning) of every setting, the limits last."""
    defaults = Settings()
    rows: list[tuple[str, str, str]] = []
    limits = {limit.name for limit in fields(Limits)}
    for setting in sorted(fields(Settings), key=lambda setting: setting.name in limits):
        default = getattr(defaults, setting.name)
        text = ",".join(default) if isinstance(default, tuple) else str(default or "")
        rows.append((setting.metadata["variable"], text, setting.metadata["meaning"]))
    return rows


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the `MLSCOPE_*` variables in `environ` that are no settings, mostly typing errors."""
    variables = {setting.metadata["variable"] for setting in fields(Settings)}
    return sorted(name for name in environ if name.startswith("MLSCOPE_") and name not in variables)
