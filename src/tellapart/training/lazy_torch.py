"""torch, imported when a name of it is first used: losses are listed, and files checked, without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch  # noqa: PLC0414  (re-exported)
    from torch import Tensor as Tensor  # noqa: PLC0414
else:
    from tellapart.errors import import_torch

    class _Torch:
        """The library, by attribute."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # a tool that inspects the module's names
                raise AttributeError(name)
            self.__dict__[name] = getattr(import_torch(), name)  # so a name is looked up once
            return self.__dict__[name]

    torch, Tensor = _Torch(), Any  # annotations alone name a tensor
