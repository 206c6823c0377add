"""Onggi: vfolders, files, and data loaders that run where the data lies.

Names are imported when first used, so that a worker that needs only `onggi.worker` loads nothing
else, and `import onggi` never loads torch.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from onggi import _errors as errors
    from onggi._client import Client, connect
    from onggi._errors import OnggiError
    from onggi._filesystem import OnggiFileSystem
    from onggi._vfolder import VFolder
    from onggi.offload import offload, unwrap

_HOMES = {
    "Client": "onggi._client",
    "OnggiError": "onggi._errors",
    "OnggiFileSystem": "onggi._filesystem",
    "VFolder": "onggi._vfolder",
    "connect": "onggi._client",
    "errors": "onggi._errors",
    "unwrap": "onggi.offload",
}

__all__ = [
    "Client",
    "OnggiError",
    "OnggiFileSystem",
    "VFolder",
    "__version__",
    "connect",
    "errors",
    "offload",
    "unwrap",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'onggi' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if name == "errors" else getattr(module, name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """`onggi.offload` is the function for whoever uses it, though a sub-package has that name."""

    @property
    def offload(self) -> Any:
        return importlib.import_module("onggi.offload").offload

    @offload.setter
    def offload(self, value: ModuleType) -> None:
        """Where the import system would put the sub-package."""


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


sys.modules[__name__].__class__ = _Package
