"""Every setting of mlscope: its environment variable, its values and its documentation.

fields.py      how a setting is declared
values.py      how the text of a variable becomes a value
settings.py    all settings, read once when a program starts
reference.py   their names and meanings, for documentation and for misspelt variables
"""

from mlscope.settings.settings import GIB, InvalidSetting, Settings, is_loopback

__all__ = ["GIB", "InvalidSetting", "Settings", "is_loopback"]
