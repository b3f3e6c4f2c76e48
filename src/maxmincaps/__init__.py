"""Capsule networks with Max-Min normalization.

Public names are listed in `__init__.pyi` and loaded when they are first used, so that `import maxmincaps` and the
command are fast.
"""

from typing import Any

import lazy_loader

_load_name, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_RENAMED = {"Record": "Run", "Together": "CombinedObserver"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("maxmincaps")
    if name in _RENAMED:
        import warnings

        warnings.warn(f"maxmincaps.{name} is now {_RENAMED[name]}", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    try:
        return _load_name(name)
    except AttributeError:
        if name in __all__:
            raise
        raise AttributeError(f"maxmincaps has no {name!r}; it has {', '.join(__all__)}") from None
