"""`python -m tools.reference FOLDER`: write the reference pages into FOLDER."""

import sys
from pathlib import Path

from tools.reference import write_pages

write_pages(Path(sys.argv[1]))
