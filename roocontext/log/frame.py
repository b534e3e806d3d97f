"""The frame of a session's requests: the system prompt and the tools that are sent with them.

It is recorded as the agent gave it, before any form converts it or marks it for a cache.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roocontext.errors import InvalidOption
from roocontext.log.encoding import plain


@dataclass(frozen=True, slots=True)
class Frame:
    """A system prompt, or None, and tool definitions."""

    system: Any = None
    tools: tuple[Any, ...] = ()

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Frame":
        """Read the content of a note."""
        return cls(content.get("system"), tuple(content["tools"]))

    def content(self) -> dict[str, Any]:
        """Make the content of a note."""
        system = {} if self.system is None else {"system": self.system}
        return {**system, "tools": list(self.tools)}


@dataclass(frozen=True, slots=True)
class GivenFrame:
    """What a call gave of the frame. What it left out is None, and stays as it is recorded."""

    system: Any = None
    tools: tuple[Any, ...] | None = None

    @classmethod
    def checked(cls, system: Any, tools: Any) -> "GivenFrame":
        """Refuse what is neither a system prompt nor a list of tools; models become plain data."""
        if not isinstance(system, str | list | tuple | None):
            raise InvalidOption("A system prompt is a text or a list of blocks.", name="system")
        if not isinstance(tools, list | tuple | None):
            raise InvalidOption("Tools are a list of definitions.", name="tools")
        prompt = plain(list(system)) if isinstance(system, list | tuple) else system
        return cls(prompt, None if tools is None else tuple(plain(list(tools))))

    @property
    def is_empty(self) -> bool:
        """Whether everything was left out."""
        return self.system is None and self.tools is None

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return self.system is not None and self.tools is not None

    def over(self, recorded: Frame | None) -> Frame:
        """Complete it by what is recorded."""
        kept = recorded or Frame()
        return Frame(
            kept.system if self.system is None else self.system,
            kept.tools if self.tools is None else self.tools,
        )
