"""What Claude Code sends of an attachment that holds words or files of the user.

What the user types while the agent works, and the files that the user names, are rows of the type
`attachment`, and the tool sends them again after a resume. A row says in `rendered` what was sent,
and exactly that is sent again. In rows of older releases there are only the words, around which the
tool puts a notice, and then the images.
"""

from typing import Any, TypeAlias, TypeGuard

Content: TypeAlias = str | list[Any]

_WORDS = "queued_command"
_FILES = ("file", "directory", "pdf_reference", "mcp_resource", "selected_lines_in_ide")


def sent_of(attachment: Any, rendered: Any) -> Content | None:
    """The content of the message that is sent; None if it is not the user's, or not known."""
    kind = attachment.get("type") if isinstance(attachment, dict) else None
    if kind != _WORDS and kind not in _FILES:
        return None
    messages = rendered if isinstance(rendered, list) else []
    given = [one.get("content") for one in messages if isinstance(one, dict)]
    contents = [one for one in given if _is_content(one)]
    if not contents and kind == _WORDS and _is_content(words := attachment.get("prompt")):
        return words if isinstance(words, str) else sorted(words, key=_is_no_text)
    if len(contents) < 2:
        return contents[0] if contents else None
    return [block for content in contents for block in _blocks(content)]


def _is_content(value: Any) -> TypeGuard[Content]:
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) for one in value)
    return isinstance(value, str) and bool(value)


def _is_no_text(block: dict[str, Any]) -> bool:
    return block.get("type") != "text"


def _blocks(content: Content) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
