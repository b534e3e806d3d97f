"""The definitions of the tools, as each provider takes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

from roocontext.errors import InvalidOption
from roocontext.log.forms.tools import (
    Function,
    anthropic_tools,
    chat_tools,
    gemini_tools,
    responses_tools,
)
from roocontext.log.recall import READ_HISTORY, SEARCH_HISTORY
from roocontext.search.passages import Speaker

_SESSION: Final = {
    "type": "string",
    "description": "The id of a session of a sub-agent. Default: this session.",
}
_REWOUND: Final = {
    "type": "boolean",
    "description": "Include messages that were taken back by a rewind. Default: false.",
}

FUNCTIONS: Final = (
    Function(
        SEARCH_HISTORY,
        "Search the whole history of this session and of its sub-agents, also what was summarised"
        " or cleared and is no longer in your context. Returns the messages that hold all words,"
        " each with its entry number and an excerpt. Use it when a detail such as a file name, a"
        " number or an error text is missing.",
        {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": 'Words that a message must all hold. "Two words" in quotation'
                    " marks must follow each other, and begin* finds what begins like that.",
                },
                "role": {
                    "type": "string",
                    "enum": list(get_args(Speaker)),
                    "description": "Only messages of this speaker; `tool` is the outputs of tools.",
                },
                "tool": {
                    "type": "string",
                    "description": "Only the calls and outputs of the tool with this name.",
                },
                "since": {
                    "type": "string",
                    "description": "Only messages of this time (UTC) or later: 2026-01-31T09:30.",
                },
                "until": {
                    "type": "string",
                    "description": "Only messages before this time (UTC).",
                },
                "session": _SESSION,
                "rewound": _REWOUND,
                "page": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The page of hits. Default: 1.",
                },
            },
            "required": ["query"],
        },
    ),
    Function(
        READ_HISTORY,
        "Read messages of the history of this session as they were written, by their entry"
        " numbers, also those that are no longer in your context. Long messages come in parts.",
        {
            "type": "object",
            "properties": {
                "first": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The number of the first entry.",
                },
                "last": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The number of the last entry. Default: as many as fit.",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "How many characters of the first message to skip. Default: 0.",
                },
                "session": _SESSION,
                "rewound": _REWOUND,
            },
            "required": ["first"],
        },
    ),
)

_SHAPES: Final[Mapping[str, Callable[[Sequence[Function]], list[dict[str, Any]]]]] = {
    "anthropic": anthropic_tools,
    "openai": chat_tools,
    "openai-responses": responses_tools,
    "gemini": gemini_tools,
}


def definitions(form: str = "anthropic") -> list[dict[str, Any]]:
    """The tools as a provider takes them; `Session.request` converts those of any form."""
    if form not in _SHAPES:
        raise InvalidOption(f"form must be one of {', '.join(_SHAPES)}.", name="form")
    return _SHAPES[form](FUNCTIONS)
