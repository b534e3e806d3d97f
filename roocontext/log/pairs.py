"""The pairs of tool calls and the results that answer them.

Only this module decides which belong together. A result answers the latest earlier call with its id
that is not yet answered, because agents reuse ids. If calls in one message share an id, the first
is answered first. A row that names the call it answers, by entry and number, is not matched by its
id. Messages are given as their reader shows them: Anthropic's role and blocks.

Nearly every tool call is answered by the very next messages. Such an exchange is settled: its
results take all of its calls and nothing else. So none of its messages has a partner elsewhere, and
without it all other results still answer the same calls. A check of a plan leaves it out.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from roocontext.errors import HistoryCorrupt
from roocontext.log.encoding import decode, encode
from roocontext.log.entries import BlockRef
from roocontext.log.readings import Block, RoleAndBlocks, calls, results
from roocontext.log.readings.blocks import string

Place: TypeAlias = tuple[int, int]
"""The index of a message and of a block in it."""

Links: TypeAlias = dict[int, tuple[int | None, int]]
"""By the index of a result's message: the index of the call's message, and the call's number in it.

The index is None if the call is not among the messages: then the result answers none of them.
"""

_NO_LINKS: Final[Links] = {}

CALL, RESULT = "call", "result"

_decode_ids = msgspec.json.Decoder(list[str]).decode


def may_hold_tools(text: str) -> bool:
    """True if stored content may hold tools. Most contents do not, and need no parsing.

    No format has tools in a string. Any other content in which a reader finds tools has one of
    these words in its stored text.
    """
    return not text.startswith('"') and (
        '"tool' in text or '"function' in text or '_call"' in text or '_call_output"' in text
    )


class Pair(NamedTuple):
    """A tool call and the result that answers it. A tuple, because a check makes thousands."""

    call: Place
    result: Place
    id: str


class Tools(NamedTuple):
    """The tool calls of an assistant's message, or the results in a user's: block and id of each.

    Pairing needs nothing else of a message, so the log stores it in a column of its own.
    """

    are_calls: bool
    ids: Sequence[tuple[int, str]]

    def text(self) -> str:
        """The column of the log."""
        return encode([CALL if self.are_calls else RESULT, *(tool_id for _, tool_id in self.ids)])


def tools_of(message: RoleAndBlocks) -> Tools | None:
    """The tool calls or results of a message; None if it has none."""
    role, blocks = message
    are_calls = role == "assistant"
    ids = calls(blocks) if are_calls else results(blocks) if role == "user" else []
    return Tools(are_calls, ids) if ids else None


def tools_from(text: str) -> Tools:
    """Read the column of the log."""
    try:
        names: Any = _decode_ids(text)
    except (msgspec.DecodeError, UnicodeError):  # lone surrogates, or damage
        names = decode(text)
    match names:
        case [kind, *ids] if kind in (CALL, RESULT) and all(isinstance(id_, str) for id_ in ids):
            return Tools(kind == CALL, list(enumerate(ids)))
    raise HistoryCorrupt("The stored tool ids of a message cannot be read.")


def links_of(rows: Iterable[tuple[int, BlockRef | None]]) -> Links:
    """The rows that name the call that they answer, given each row's seq and `answers`."""
    index_of: dict[int, int] = {}
    links: Links = {}
    for index, (seq, answers) in enumerate(rows):
        index_of[seq] = index
        if answers is not None:
            links[index] = index_of.get(answers[0]), answers[1]
    return links


def pairs(messages: Sequence[RoleAndBlocks], links: Links = _NO_LINKS) -> list[Pair]:
    """Find the answered calls, in the order of their results."""
    return matched([tools_of(message) for message in messages], links)


def matched(messages: Sequence[Tools | None], links: Links = _NO_LINKS) -> list[Pair]:
    """Find the answered calls, given only the tool ids of the messages."""
    matches: list[Pair] = []
    waiting: defaultdict[str, list[Place]] = defaultdict(list)
    for index, tools in enumerate(messages):
        if tools is None:
            continue
        # A row with several results cannot say which of them the link is for: ids decide there.
        if index in links and not tools.are_calls and len(tools.ids) == 1:
            if call := _linked(messages, waiting, *links[index]):
                matches.append(Pair(call, (index, tools.ids[0][0]), tools.ids[0][1]))
            continue
        for block, tool_id in tools.ids:
            if tools.are_calls:
                waiting[tool_id].append((index, block))
            elif places := waiting[tool_id]:
                # Agents reuse ids: the latest message counts, and in it the first call.
                call = places.pop(bisect_left(places, (places[-1][0], 0)))
                matches.append(Pair(call, (index, block), tool_id))
    return matches


def reach(
    messages: Sequence[Tools],
    before: Sequence[int],
    stretches: int,
    links: Links = _NO_LINKS,
) -> range:
    """Find the stretches of other messages that may hold partners of these, or change the pairs.

    The view consists of these messages and of `stretches` of others, which are not read yet;
    `before` is the number of stretches before each message. A stretch matters if it follows a call
    without a result or precedes a result without a call. All of them do if one lies between the two
    of a pair: it may hold another partner of either, and the other one's may then be anywhere.
    """
    first, end = stretches, 0
    met: set[Place] = set()
    for call, result, _ in matched(messages, links):
        met.add(call)
        met.add(result)
        if before[call[0]] != before[result[0]]:
            return range(stretches)
    for index, tools in enumerate(messages):
        if all((index, block) in met for block, _ in tools.ids):
            continue
        if tools.are_calls:
            # Its result may be anywhere after it.
            first, end = min(first, before[index]), stretches
        else:
            # A result without a call takes the latest one before it, however far back.
            first, end = 0, max(end, before[index])
    return range(first, end)


def bound(answered: Sequence[Pair]) -> dict[int, set[int]]:
    """Map each message that has tool partners to all others that must stay together with it.

    Two results of one call's message are partners too: hiding one of them would split the other.
    """
    groups: dict[int, set[int]] = {}
    for pair in answered:
        call, result = pair.call[0], pair.result[0]
        joined = groups.get(call, {call}) | groups.get(result, {result})
        groups.update(dict.fromkeys(joined, joined))
    return {index: group - {index} for index, group in groups.items()}


def _linked(
    messages: Sequence[Tools | None],
    waiting: Mapping[str, list[Place]],
    index: int | None,
    number: int,
) -> Place | None:
    """Take the call that a result names, if it is here and waits."""
    tools = None if index is None else messages[index]
    if index is None or tools is None or not tools.are_calls or number >= len(tools.ids):
        return None
    block, tool_id = tools.ids[number]
    places = waiting[tool_id]
    # Calls without ids share one list, which ascends: searching it from its start would take time
    # with the square of their number.
    at = bisect_left(places, (index, block))
    if places[at : at + 1] != [(index, block)]:
        return None
    return places.pop(at)


_HOSTED_CALLS: Final = ("server_tool_use", "mcp_tool_use")
_HOSTED_RESULT: Final = re.compile(r"\w+_tool_result")


def unpaired(blocks: Sequence[Block]) -> tuple[set[int], set[int]]:
    """Find the calls of tools that Anthropic runs itself, whose results are in a reply too.

    Those that still wait for their result, and the calls and results that can have no partner.
    """
    waiting: dict[str, int] = {}
    separated: set[int] = set()
    for index, block in enumerate(blocks):
        kind = string(block, "type")
        is_call = kind in _HOSTED_CALLS
        if not is_call and not _HOSTED_RESULT.fullmatch(kind):
            continue
        tool_id = string(block, "id" if is_call else "tool_use_id")
        earlier = waiting.pop(tool_id, None)
        if is_call and earlier is not None:
            separated.add(earlier)  # a continued reply may repeat the call
        if is_call and tool_id:
            waiting[tool_id] = index
        elif is_call or earlier is None:
            separated.add(index)
    return set(waiting.values()), separated


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
    # No list or tuple is made for each row: a plan may hide thousands.
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
