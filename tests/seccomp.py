"""Whether this kernel puts a process under a filter of system calls; inline Python needs one."""

import functools
import subprocess
import sys

import pytest

_TRY = (
    "import os; from services.agent.worker.seccomp import inline_code; "
    "inline_code.filter_calls(); os._exit(0)"
)


@functools.cache
def _has_filter() -> bool:
    return subprocess.run([sys.executable, "-c", _TRY], capture_output=True).returncode == 0


needs_filter = pytest.mark.skipif(
    not _has_filter(), reason="INLINE PYTHON NOT TESTED: no filter of system calls (seccomp) here"
)
