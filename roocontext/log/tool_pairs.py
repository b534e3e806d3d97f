"""Which messages are left to look at when it is asked what a plan would separate.

Nearly every tool call is answered by the very next messages. Such an exchange is settled: its
results take all of its calls and nothing else. So none of its messages has a partner elsewhere, and
without it all other results still answer the same calls.
"""

from collections.abc import Iterable
from typing import TypeAlias

_CALL, _RESULT = '["call",', '["result",'

ToolRow: TypeAlias = tuple[int, str, int | None, int | None]
"""A seq, what the log's column says of tools, and the call that it answers: entry and number."""


def unsettled(messages: Iterable[ToolRow]) -> list[int]:
    """The indices of those messages that are in no settled exchange.

    The messages must be neighbours: what is between two of them has no tools. The texts are
    compared without reading them, which is much faster, because the same ids always give the same
    text. Results in another order than their calls are left to the general matching.
    """
    left: list[int] = []
    wanted, first = "", 0
    # The call that the next result has to be of, if it names one.
    caller: int | None = None
    number = 0
    # Without a list or a tuple for each row: a plan may hide thousands.
    for index, (seq, text, of, of_number) in enumerate(messages):
        is_other = of is not None and (of != caller or of_number != number)
        # The same ids in the same order: this result answers all of the calls, and takes nothing
        # else.
        if text == wanted and not is_other:
            del left[first:]
            wanted = ""
            continue
        left.append(index)
        if text.startswith(_CALL):
            wanted, first = _RESULT + text[len(_CALL) :], len(left) - 1
            caller, number = seq, 0
        elif wanted and wanted.startswith(f"{text[:-1]},") and not is_other:
            # The first of several results.
            wanted = _RESULT + wanted[len(text) :]
            caller, number = (caller if text.count('","') == 1 else None), number + 1
        else:
            wanted = ""
    return left
