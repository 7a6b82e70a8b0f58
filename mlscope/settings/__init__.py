"""Every setting of mlscope: its environment variable, its values and its documentation.

fields.py      how a setting is declared
values.py      how the text of a variable becomes a value
limits.py      the settings that bound the system: counts, sizes and times
settings.py    all settings, read once when a program starts
errors.py, hosts.py   a value that can't be used; hosts that only this machine reaches
reference.py   their names and meanings, for documentation and for misspelt variables
"""

from mlscope.settings.errors import InvalidSetting
from mlscope.settings.hosts import is_loopback
from mlscope.settings.limits import GIB
from mlscope.settings.settings import Settings

__all__ = ["GIB", "InvalidSetting", "Settings", "is_loopback"]
