"""The page of settings: every `MLSCOPE_*` variable, its default and its meaning."""

from mlscope.setting_reference import documentation
from tools.reference.markdown import code, table

_HEAD = """# Settings

Every service and the command line read these environment variables once, when they start.
`mlscope help settings` prints the same list with the defaults of your machine.

"""


def settings_page() -> str:
    """Return the page as Markdown."""
    rows = (
        (code(variable), _default(variable, default), meaning)
        for variable, default, meaning in documentation()
    )
    return _HEAD + table(("Variable", "Default", "Meaning"), rows)


def _default(variable: str, default: str) -> str:
    """Return a default as code; one that depends on the machine is not shown."""
    is_machine_dependent = variable in {"MLSCOPE_AGENT_ID", "MLSCOPE_MANIFESTS"}
    return "depends on the machine" if is_machine_dependent else code(default)
