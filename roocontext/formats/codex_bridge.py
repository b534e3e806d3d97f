"""What Codex CLI before 0.50 sends for a compaction: one message of the user's and the summary."""

_FIRST, _APART, _ROLLBACKS = (0, 30), (0, 50), (0, 77)
_PREFIX = "Another language model started to solve this problem"


def is_bridged(version: tuple[int, ...]) -> bool:
    """Whether this release puts everything into one message."""
    return _FIRST <= version < _APART


def is_taken_for_the_users(summary: str, version: tuple[int, ...]) -> bool:
    """Whether the next compaction keeps this summary among what the user has written."""
    return _FIRST <= version < _ROLLBACKS and not summary.startswith(_PREFIX)


def bridge(texts: list[str], summary: str) -> str:
    """The message: what the user has written, and the summary."""
    said = "\n\n".join(texts) or "(none)"
    return (
        "You were originally given instructions from a user over one or more turns. "
        "Here were the user messages:\n\n"
        f"{said}\n\n"
        f"{_PREFIX} and produced a summary of its thinking process. You also have access to the "
        "state of the tools that were used by that language model. Use this to build on the work "
        "that has already been done and avoid duplicating work. Here is the summary produced by "
        "the other language model, use the information in this summary to assist with your own "
        f"analysis:\n\n{summary}"
    )
