"""A stand-in for a service: says that it is ready, notes what it was given, waits to be ended.

It ends at once where the data folder holds `die-NAME`.
"""

import json
import os
import sys
import time
from pathlib import Path

environ = {name: value for name, value in os.environ.items() if name.startswith("MLSCOPE_")}
if Path(environ["MLSCOPE_DATA"], f"die-{sys.argv[1]}").exists():
    sys.exit(7)
Path(environ["MLSCOPE_DATA"], f"given-{sys.argv[1]}.json").write_text(json.dumps(environ))
if sys.argv[1] == "provision":
    sys.exit(0)
Path(environ["MLSCOPE_READY_FILE"]).touch()
time.sleep(600)
