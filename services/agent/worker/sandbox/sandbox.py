"""The sandbox of a worker: its session's files and what programs need, whatever its model does.

A model's file can hold operators that read and write files, and a framework runs them with the
rights of its process. So a worker gives up the rights it does not need before it opens a model: it
reads the session's files and those of programs, and writes into its scratch folder alone. A worker
of root becomes a user of its own.
"""

import os
import signal
import site
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from dataclasses import replace
from pathlib import Path

from services.agent.link.messages import PerformOrder
from services.agent.machine.landlock import Capability, Reach, confine, landlock_version
from services.agent.machine.mounts import hide
from services.agent.worker.sandbox.own_user import (
    CHANGING_USER,
    Needs,
    become_own_user,
    can_change_user,
)
from services.agent.worker.seccomp.installing import FilterMissing, filter_fault
from services.agent.worker.seccomp.model import refuse_rights

# Not CAP_PERFMON: from Linux 6.14 on, it lets a process read the environment of all others.
_PROFILING = (Capability.IPC_LOCK,)
# SYS_ADMIN is what NVIDIA's driver asks for by default; SYS_NICE, which drivers may use, also slows
# down or moves the processes of others.
_ON_GPU = (Capability.SYS_ADMIN, Capability.SYS_NICE)
# The process of inline code becomes a user of its own where its worker is root, which ends it.
_INLINE_CODE = (
    Capability.DAC_READ_SEARCH,
    Capability.KILL,
    Capability.SETGID,
    Capability.SETUID,
)
_SOURCE = Path(__file__).resolve().parents[4]
"""The folder that mlscope's packages lie in."""
_PROGRAMS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store", "/snap")
_STATE = ("/proc", "/sys", "/run/nvidia-persistenced", "/var/lib/ca-certificates")
_CONFIGURATION = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
    "fonts", "gai.conf", "group", "host.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "localtime", "machine-id", "mime.types", "nsswitch.conf", "nvidia", "OpenCL", "openmpi",
    "os-release", "passwd", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs",
    "pki/tls/openssl.cnf", "protocols", "resolv.conf", "services", "ssl/certs", "ssl/openssl.cnf",
    "timezone", "vulkan",
)  # fmt: skip
_DEVICES = (
    "null", "zero", "full", "random", "urandom", "tty", "nvidia*", "dri", "kfd", "accel*",
    "infiniband", "cpu_dma_latency", "neuron*", "apex_*", "vfio", "nvmap", "nvhost-*", "nvgpu",
    "dxg",
)  # fmt: skip
_NVIDIA = (Path("/dev/nvidiactl"), Path("/dev/nvmap"), Path("/dev/dxg"))
"""One of these is where CUDA runs: on most machines, on Jetson boards, and in Windows' Linux."""
_OF_NVIDIA = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm", "nvmap", "dxg")
_ACCELERATORS = ("dri/renderD*", "kfd", "accel*", "accel/*", "neuron*", "apex_*", "vfio/*")
"""Those of other makers."""
_ENERGY = "class/powercap/intel-rapl:*/energy_uj"
"""Below /sys: counters of energy, which most kernels let only root read."""

_PRIVATE = (
    "/dev", "/etc/shadow", "/etc/gshadow", "/etc/ssh", "/home", "/root", "/run", "/tmp",  # noqa: S108
    "/var",
)  # fmt: skip
"""Where disks are, and files and sockets of users and services: hidden where Landlock is absent."""

_THREADS = Path("/proc/self/task")
"""Where CUDA gives its threads names, without which it does not start. A rule on this folder is for
this process alone, not for those that it starts.
"""

_PORTS = (0, 4318)
"""Where a worker may listen: any port that the kernel picks, and that of OTLP. A port of the
cluster that is free for a moment must not be a model's: nobody could tell it from the broker."""

_UNIX_WITH_CONNECTIONS = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
"""The kinds of UNIX sockets by which services are asked."""
_UNIX_BESIDE_CUDA = (socket.SOCK_STREAM,)
"""CUDA (driver 580) does not start unless it may listen on a UNIX socket for packets."""

_FORK_S, _POLL_S = 5.0, 0.001
"""How long a process may live that ends at once, and how often it is asked."""


def missing_parts() -> tuple[str, ...]:
    """Return what this machine lacks of a sandbox, in words; () where it has all."""
    landlock_fault = "" if landlock_version() else "this kernel has no Landlock"
    return tuple(filter(None, (landlock_fault, filter_fault())))


def enter_sandbox(message: PerformOrder, scratch: Path) -> tuple[str, ...]:
    """Confine this thread, and all that it starts, to the files of the session that it opens.

    Does nothing where the settings want none. For `auto` it does nothing where `ncu` replays the
    session: CUDA starts in no child process of a confined process (`_THREADS`). Where the kernel
    has no Landlock, `auto` hides files from a worker of root on the CPU by mounts, if root may
    mount here, and does nothing for others.

    A worker of root becomes a user of its own; unless its owner asks for more, only on the CPU and
    on NVIDIA's GPUs, since no driver of another accelerator was tried. Returns notes for a reader
    of its results. Raises OSError, also where only a part could be hidden, and FilterMissing where
    a sandbox is required and calls can't be filtered.
    """
    allowances = message.allowances
    if (confining := _confining(message)) is None:
        return ()
    notes = end_openblas_threads()
    # Frameworks keep files at home (OpenVINO an id, without which it cannot be imported). Packages
    # that the user installed for Python are still found where they are.
    os.environ.setdefault("PYTHONUSERBASE", site.getuserbase())
    os.environ["HOME"] = str(scratch / "home")
    is_on_cpu = message.order.subject.device == "cpu"
    capabilities = {
        *_PROFILING,
        *(() if is_on_cpu else _ON_GPU),
        *(_INLINE_CODE if allowances.inline is not None else ()),
    }
    user_before = os.geteuid()
    has_cuda = not is_on_cpu and _has_nvidia_driver()
    was_tried = is_on_cpu or has_cuda
    is_wanted = allowances.worker_user == "own" or (allowances.worker_user == "auto" and was_tried)
    if is_wanted and can_change_user():
        if confining(message, scratch, capabilities | CHANGING_USER):
            may_read_all = confining is _confine_by_landlock
            needs = _needs_of(message, scratch)
            notes += become_own_user(needs, capabilities, may_read_all=may_read_all)
    else:
        confining(message, scratch, capabilities)
    # A worker of its agent's user would reach what that user may ask of services.
    shares_user = os.geteuid() == user_before
    reaching = _UNIX_BESIDE_CUDA if has_cuda else _UNIX_WITH_CONNECTIONS
    refused_unix = reaching if shares_user else ()
    return (*notes, *_filtered(refused_unix, is_required=allowances.sandbox == "required"))


def _confining(
    message: PerformOrder,
) -> Callable[[PerformOrder, Path, Set[Capability]], bool] | None:
    """Return what confines the worker of an order: whether it did; None: nothing is to."""
    sandbox = message.allowances.sandbox
    is_on_cpu = message.order.subject.device == "cpu"
    is_replayed = message.order.session.variant == "counters"
    if sandbox == "required":
        return _confine_by_landlock
    if sandbox == "off":
        return None
    if landlock_version():
        return _confine_by_landlock if is_on_cpu or not is_replayed else None
    return _hide_by_mounts if is_on_cpu and os.geteuid() == 0 else None


def _hide_by_mounts(message: PerformOrder, scratch: Path, retained: Set[Capability]) -> bool:
    """Return False in most containers: root may not mount there, and keeps its rights."""
    allowances = message.allowances
    hidden = (*map(Path, _PRIVATE), *allowances.hidden)
    programs = (*_interpreter(), "/etc/resolv.conf", *_STATE)
    devices = _device_files((*_DEVICES, *allowances.devices))
    shown = (*map(Path, programs), *devices, *_session_files(message))
    return hide(hidden, shown, scratch, retained)


def _confine_by_landlock(message: PerformOrder, scratch: Path, retained: Set[Capability]) -> bool:
    allowances = message.allowances
    reach = reach_of(_session_files(message), scratch, allowances.hidden, allowances.devices)
    if message.order.subject.device != "cpu":
        # Open for good: the rule holds as long as the kernel keeps this folder in memory.
        os.open(_THREADS, os.O_PATH | os.O_CLOEXEC)
        reach = replace(reach, writable=(*reach.writable, _THREADS))
    confine(reach, retained)
    return True


def _session_files(message: PerformOrder) -> tuple[Path, ...]:
    return (message.manifests_folder, *(file.path for file in message.files.values()))


def _needs_of(message: PerformOrder, scratch: Path) -> Needs:
    """Return what a worker uses that may be root's alone."""
    subject = message.order.subject
    counters = Path("/sys").glob(_ENERGY) if subject.collectors.get("energy") else ()
    # A machine may have others, such as a device that root gave to a virtual machine.
    accelerators = _OF_NVIDIA if _has_nvidia_driver() else _ACCELERATORS
    used = () if subject.device == "cpu" else accelerators
    return Needs(
        programs=tuple(map(Path, _interpreter())),
        files=(*_session_files(message), *counters),
        devices=tuple(_device_files((*message.allowances.devices, *used))),
        scratch=scratch,
    )


def _has_nvidia_driver() -> bool:
    return any(device.exists() for device in _NVIDIA)


def _filtered(refused_unix: Collection[int], *, is_required: bool) -> tuple[str, ...]:
    """Refuse calls that Landlock allows; return a note where they can't be and needn't be."""
    try:
        refuse_rights(refused_unix=refused_unix)
    except FilterMissing as error:
        if is_required:
            raise
        return (f"the model could change modes and owners of files: {error}",)
    return ()


def end_openblas_threads(limit_s: float = _FORK_S) -> tuple[str, ...]:
    """End the threads that OpenBLAS started when it was imported; it starts new ones when needed.

    A thread that runs already stays outside of the sandbox, and code that takes over this process
    could make it act there. OpenBLAS ends its threads before a fork. Returns a note where the child
    had to be killed after `limit_s` seconds, because another library blocks in it. Where one blocks
    here, before the fork, no code of ours runs any more: SIGALRM ends this process.
    """
    if not _THREADS.is_dir() or len(list(_THREADS.iterdir())) < 2:
        return ()
    timer_before = signal.setitimer(signal.ITIMER_REAL, limit_s)  # which the child does not inherit
    child = os.fork()
    if child == 0:
        os._exit(0)
    signal.setitimer(signal.ITIMER_REAL, *timer_before)
    until_s = time.monotonic() + limit_s
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() >= until_s:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return (f"sandbox: a library blocked a fork, which was killed after {limit_s:g} s",)
        time.sleep(_POLL_S)
    return ()


def reach_of(
    session_files: Iterable[Path],
    scratch: Path,
    hidden: Iterable[Path],
    devices: Iterable[str] = (),
) -> Reach:
    """Return the reach of a worker that opens `session_files` and writes into `scratch`.

    Of the programs' folders, what lies below a `hidden` path (keys, others' files) is left out.
    `devices` are patterns below /dev of what it may use besides the devices that are known.
    """
    secret = tuple(path.resolve() for path in hidden)
    programs = {
        Path(folder).resolve()
        for folder in (*_PROGRAMS, *_STATE, *_interpreter())
        if Path(folder).exists()
    }
    configuration = {Path("/etc", name) for name in _CONFIGURATION}
    readable = {visible for folder in programs for visible in visible_in(folder, secret)}
    return Reach(
        readable=(*sorted(readable), *sorted(configuration), *session_files),
        writable=(scratch, *sorted({*_device_files((*_DEVICES, *devices))})),
        ports=_PORTS,
    )


def _interpreter() -> Iterator[str]:
    """Yield the folders of Python and its packages."""
    places = (*sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    for place in filter(None, places):
        if Path(place).resolve() == _SOURCE and (_SOURCE / "pyproject.toml").exists():
            # A checkout holds more than programs: backups, `.env`, data folders.
            yield from (str(folder) for folder in _SOURCE.iterdir() if any(folder.glob("*.py")))
        else:
            yield place
    # Projects that are installed with `--editable` lie outside Python's path. Setuptools writes a
    # finder for each, and its folder as a whole is not importable.
    for finder in sys.meta_path:
        module_name = str(getattr(finder, "__module__", ""))
        if not module_name.startswith("__editable__"):
            continue
        module = sys.modules.get(module_name)
        # Setuptools' finders have both; others of this name may have neither.
        for name in getattr(module, "MAPPING", ()):
            spec = finder.find_spec(name, None)
            if spec is not None and spec.origin:
                yield from spec.submodule_search_locations or [spec.origin]
        for folders in getattr(module, "NAMESPACES", {}).values():
            yield from folders


def _device_files(patterns: Iterable[str]) -> Iterator[Path]:
    """Yield the device files, and folders of them, that `patterns` below /dev lead to."""
    relative = (pattern.removeprefix("/dev").lstrip("/") for pattern in patterns)
    for pattern in filter(None, relative):
        yield from Path("/dev").glob(pattern)


def visible_in(folder: Path, hidden: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the largest parts of `folder` without any of the `hidden` paths; all resolved."""
    if any(folder.is_relative_to(path) for path in hidden):
        return
    if not any(path.is_relative_to(folder) for path in hidden):
        yield folder
        return
    for entry in sorted(folder.iterdir()):
        if not entry.is_symlink():
            yield from visible_in(entry, hidden)
