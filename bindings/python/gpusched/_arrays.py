"""numpy, imported when an array is first needed: tasks and ranges do without."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        """Imports the module at the first use, and at each use until that succeeds."""

        _module: ModuleType | None = None

        def __getattr__(self, name: str) -> Any:
            if self._module is None:
                try:
                    self._module = importlib.import_module("numpy")
                except ImportError as error:
                    raise ImportError(
                        "gpusched.Model, Shot and wavelet hold arrays and need numpy 1.22 or later, which Python "
                        f"does not find ({error}); install it, for instance by: python3 -m pip install numpy",
                        name="numpy",
                    ) from error
            return getattr(self._module, name)

    np = _Numpy()

__all__ = ["np"]
