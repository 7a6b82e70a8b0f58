"""What processes of PyTorch's models share: PyTorch, torchvision and timm, imported once.

Beside a PyTorch for CPUs, a torchvision that is built for CUDA has no operators of its own. Those
that the tests declare in Python stand in for them then.
"""

from contextlib import suppress
from importlib import import_module

from services.agent.machine.packages import package_fact

if package_fact("torchvision").reason:
    with suppress(ImportError):
        from tests.catalog.torchvision_here import importable

        importable()
for _name in ("torch", "torchvision", "timm"):
    # A model of a package that is missing says so itself.
    with suppress(ImportError, RuntimeError):
        import_module(_name)
