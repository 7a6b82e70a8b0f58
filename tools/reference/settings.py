"""The page of settings: every `MLSCOPE_*` variable, its default and its meaning."""

from mlscope.settings.reference import documentation
from tools.reference.markdown import code, table

_HEAD = """# Settings

Every service and the command line read these environment variables once, when they start.
`mlscope help settings` prints the same list with the defaults of your machine.

"""
_OF_THE_MACHINE = ("MLSCOPE_AGENT_ID", "MLSCOPE_MANIFESTS")


def settings_page() -> str:
    """Return the page as Markdown; defaults that depend on the machine are not shown."""
    rows = (
        (
            code(variable),
            "depends on the machine" if variable in _OF_THE_MACHINE else code(default),
            meaning,
        )
        for variable, default, meaning in documentation()
    )
    return _HEAD + table(("Variable", "Default", "Meaning"), rows)
