"""Registries of plugins by name: built-in ones, and entry points of other packages."""

from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from roocontext.errors import RooContextError, UnknownPlugin

Plugin = TypeVar("Plugin")

BUILT_IN: dict[str, str] = {}
"""The module that registers the built-in plugins of a group, imported by the first look-up.

`roocontext/__init__.py` fills it: it may name every room, and a registry in a lower room may not.
"""


class Registry(dict[str, Plugin], Generic[Plugin]):
    """A dict that loads missing keys from an entry-point group."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group

    def register(self, name: str, plugin: Plugin) -> None:
        """Register a plugin under a name, replacing any earlier one."""
        self[name] = plugin

    def known(self) -> tuple[str, ...]:
        """List every name, including those of plugins that are not loaded yet."""
        self._settle()
        return tuple(sorted({*self, *self._offered}))

    def first(self, names: Iterable[str]) -> str | None:
        """Return the first of these names that is known, if any."""
        self._settle()
        return next((name for name in names if name in self or name in self._offered), None)

    def __missing__(self, name: str) -> Plugin:
        self._settle()
        if name in self:
            return self[name]
        if name not in self._offered:
            known = ", ".join(self.known())
            raise UnknownPlugin(
                f"{name!r} is not one of the {self.group.rpartition('.')[2]}: {known}.",
                group=self.group,
                name=name,
                known=self.known(),
            )
        try:
            plugin: Plugin = self._offered[name].load()
        except RooContextError:  # it says what is missing itself
            raise
        except Exception as error:
            raise UnknownPlugin(
                f"{name!r} of the {self.group.rpartition('.')[2]} cannot be loaded from"
                f" {self._offered[name].value!r}: {type(error).__name__}.",
                advice="Repair or uninstall the package that offers it.",
                group=self.group,
                name=name,
                known=self.known(),
            ) from error
        self[name] = plugin
        return plugin

    def _settle(self) -> None:
        if self.group in BUILT_IN:
            import_module(BUILT_IN[self.group])

    @cached_property
    def _offered(self) -> dict[str, EntryPoint]:
        # Looked up once: reading the metadata of all packages takes milliseconds.
        return {entry.name: entry for entry in entry_points(group=self.group)}
