"""Which messages are left to look at when it is asked what a plan would separate.

Nearly every tool call is answered by the very next messages. Such an exchange is settled: its
results take all of its calls and nothing else. So none of its messages has a partner elsewhere, and
without it all other results still answer the same calls.
"""

from collections.abc import Iterable

_CALL, _RESULT = '["call",', '["result",'


def unsettled(texts: Iterable[str]) -> list[int]:
    """The indices of those messages that are in no settled exchange.

    The messages are given as the log's column says what they have of tools, and must be neighbours:
    what stands between two of them has no tools. The texts are compared without reading them, which
    is much faster, because the same ids always give the same text. Results in another order than
    their calls are left to the general matching.
    """
    left: list[int] = []
    wanted, first = "", 0
    for index, text in enumerate(texts):
        if text == wanted:
            del left[first:]
            wanted = ""
            continue
        left.append(index)
        if text.startswith(_CALL):
            wanted, first = _RESULT + text[len(_CALL) :], len(left) - 1
        elif wanted.startswith(f"{text[:-1]},"):  # one of several results
            wanted = _RESULT + wanted[len(text) :]
        else:
            wanted = ""
    return left
