"""How a model's reply, as its SDK gives it or as a dict of the same shape, becomes one message.

Each provider's reply is recognised by its own shape; an object of any other shape is refused. A
package may register readers of its own, which are asked first.
"""

from typing import Any, Final

from roocontext.errors import InvalidMessage
from roocontext.log.replies.reply import RESPONSES, Compacting, Reply, ReplyReader, requested_model
from roocontext.log.replies.shapes import read_shape
from roocontext.registry import Registry

__all__ = [
    "RESPONSES",
    "Compacting",
    "Reply",
    "ReplyReader",
    "read_reply",
    "reply_readers",
    "requested_model",
]

reply_readers: Final[Registry[ReplyReader]] = Registry("roocontext.replies")


def read_reply(reply: Any) -> Reply:
    """Read a reply; a list holds the chunks or events of a stream."""
    if isinstance(reply, Reply):
        return reply
    for name in reply_readers.known():
        if reply_readers[name].recognises(reply):
            return reply_readers[name].read(reply)
    if read := read_shape(reply):
        return read
    raise InvalidMessage(
        "This is not the reply of a model. Pass the object that the SDK of Anthropic, OpenAI or"
        " Gemini returned, or a dict of the same shape; of a stream, its final object, or the list"
        " of its chunks.",
        path="reply",
    )
