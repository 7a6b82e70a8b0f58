"""Whether tests may have mounts of their own, as root of a machine may."""

import os
import subprocess

import pytest

_UNSHARED = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
MAY_MOUNT = os.geteuid() == 0 and _UNSHARED.returncode == 0
needs_mounts = pytest.mark.skipif(not MAY_MOUNT, reason="needs root that may mount")
