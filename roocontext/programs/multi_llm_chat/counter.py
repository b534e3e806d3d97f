"""multi_llm_chat's estimate: 1.5 Japanese characters or 4 others per token."""

import re
from typing import Final

from roocontext.tokens.builtin import always
from roocontext.tokens.usage import TextCounter

FACTOR: Final = 1.2
FACTOR_WITH_TOOLS: Final = 1.5

_JAPANESE: Final = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uff00-\uffef]")


def estimate_text(text: str) -> int:
    """The tokens of a text before any factor."""
    japanese = len(_JAPANESE.findall(text))
    return int(japanese / 1.5 + (len(text) - japanese) / 4)


def estimate_plain(text: str) -> int:
    """The tokens of a text in a session without tools."""
    return int(estimate_text(text) * FACTOR)


def estimate_with_tools(text: str) -> int:
    """The tokens of a text in a session with tools."""
    return int(estimate_text(text) * FACTOR_WITH_TOOLS)


plain = always(TextCounter("multi_llm_chat", estimate_plain))
with_tools = always(TextCounter("multi_llm_chat-tools", estimate_with_tools))
