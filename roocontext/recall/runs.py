"""Answers the calls of the recall tools, for Session and for AsyncSession.

The model reaches the session's own messages and those of its descendants, never those of its
parent. It never reaches redacted content, and rewound messages only if it asks for them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

from roocontext.context.steps import Steps, ask, drive, drive_async
from roocontext.errors import InvalidOption, SessionArchived, SessionNotFound
from roocontext.log.counting import Counter, counter_named
from roocontext.log.readings import read_message
from roocontext.log.summary import READ_HISTORY, SEARCH_HISTORY
from roocontext.log.turns import PendingCall
from roocontext.recall.answers import AnswerBudget, Excerpt, Recalled, quoted
from roocontext.recall.definitions import ReadCall, SearchCall, definitions, read_call
from roocontext.search.match import occurrences
from roocontext.search.passages import passages, speaker_of
from roocontext.search.query import composed, parse_query
from roocontext.store.aio import AsyncSession, AsyncStore
from roocontext.store.reading.live import Original
from roocontext.store.reading.pages import Page
from roocontext.store.search.hits import Hit
from roocontext.store.session import Session
from roocontext.store.store import Store
from roocontext.store.writing.append import Receipt
from roocontext.tokens import counter_for

HITS: Final = 8
"""The hits of a page."""
_MESSAGES: Final = 50
"""The messages that are read at once; most answers have room for fewer."""
_TOOLS: Final = (SEARCH_HISTORY, READ_HISTORY)
IN_VIEW: Final = "still in your context"

AnySession: TypeAlias = Session | AsyncSession
StoreT = TypeVar("StoreT", Store, AsyncStore)
SessionT = TypeVar("SessionT", Session, AsyncSession)


class RecallRuns(Generic[StoreT, SessionT]):
    """The answers, as runs that both interfaces drive."""

    def __init__(
        self,
        store: StoreT,
        chat: SessionT,
        *,
        budget: int = 2_000,
        counter: Counter | str | None = None,
    ) -> None:
        if type(budget) is not int or budget < 1:
            raise InvalidOption("budget must be a number of tokens, at least 1.", name="budget")
        counting = counter_for("") if counter is None else counter_named(counter)
        self._store: Store | AsyncStore = store
        self._chat: AnySession = chat
        self._budget = AnswerBudget(budget, lambda text: counting.count("user", text, "anthropic"))

    def tools(self, form: str = "anthropic") -> list[dict[str, Any]]:
        """The definitions of the tools; `Session.request` converts those of any form."""
        return definitions(form)

    def handles(self, name: str) -> bool:
        """Return True if this is the name of a recall tool."""
        return name in _TOOLS

    def _handled(self, name: str, given: Any) -> Steps[Recalled]:
        """Answer a call; if its arguments are wrong, the answer explains why."""
        if not self.handles(name):
            # Without the name: the model wrote it, and it may be anything.
            raise InvalidOption(f"The recall tools are {' and '.join(_TOOLS)}.", name="name")
        try:
            if name == SEARCH_HISTORY:
                return (yield from self._searched(read_call(given, SearchCall)))
            return (yield from self._read(read_call(given, ReadCall)))
        except (InvalidOption, SessionNotFound) as error:
            return Recalled(error.fact, is_error=True)
        except SessionArchived as error:  # its words name a file, which is nothing for a model
            return Recalled(f"Session {error.session_id!r} is archived.", is_error=True)

    def _answered(self, call: PendingCall) -> Steps[Receipt | None]:
        """Answer a pending call, if it is of one of these tools."""
        if not isinstance(call, PendingCall):
            raise InvalidOption("call must be an item of pending().", name="call")
        if not self.handles(call.name):
            return None
        done = yield from self._handled(call.name, call.input)
        answer = partial(self._chat.answer, call, done.text)
        return (yield from ask(partial(answer, is_error=done.is_error, extra=done.extra)))

    def _searched(self, call: SearchCall) -> Steps[Recalled]:
        named = yield from self._named(call.session)
        end = call.page * HITS
        excerpts: list[Excerpt] = []
        after: str | None = None
        while len(excerpts) <= end:
            page = yield from self._page(call, named, after)
            excerpts += yield from self._excerpts(page, call.query)
            after = page.next
            if after is None:
                break
        # Messages that the model sees come last.
        hits = sorted(excerpts[end - HITS : end], key=lambda excerpt: excerpt.remark == IN_VIEW)
        if not hits:
            return Recalled("No message of the history holds all of these words.")
        shown = self._budget.page(hits)
        left = len(hits) - len(shown)
        cut = f"{left} more of this page did not fit: use more words." if left else ""
        more = f"There are more hits on page {call.page + 1}." if len(excerpts) > end else ""
        how = f"To read a message in full, use {READ_HISTORY}."
        return quoted("Found in the history.", shown, " ".join(filter(None, (how, cut, more))))

    def _page(
        self, call: SearchCall, named: AnySession | None, after: str | None
    ) -> Steps[Page[Hit]]:
        within = {"family": self._chat.id} if named is None else {"session": named.id}
        search: Callable[..., Any] = self._store.search
        page: Page[Hit] = yield from ask(
            partial(
                search,
                call.query,
                **within,
                role=call.role,
                tool=call.tool,
                since=call.since,
                until=call.until,
                among="all" if call.rewound else "standing",
                limit=HITS * 2,
                after=after,
            )
        )
        return page

    def _excerpts(self, hits: Sequence[Hit], query: str) -> Steps[list[Excerpt]]:
        """The hits in messages. A call of these tools is no hit, although it holds the words."""
        excerpts: list[Excerpt] = []
        for hit in hits:
            chat = yield from self._session(hit.session_id)
            read = partial(chat.internals.originals, hit.seq, hit.seq, rewound=True)
            messages: Sequence[Original] = yield from ask(read)
            excerpts += [
                self._of_hit(hit, message) for message in messages if _holds(message, query)
            ]
        return excerpts

    def _of_hit(self, hit: Hit, message: Original) -> Excerpt:
        is_own = hit.session_id == self._chat.id
        excerpt = _of_original(None if is_own else hit.session_id, message)
        snippet = hit.snippet
        text = (
            f"{'…' if snippet.is_continued else ''}{snippet.text}{'…' if snippet.continues else ''}"
        )
        in_view = IN_VIEW if is_own and hit.visible and not hit.cleared else ""
        return excerpt._replace(text=text, remark=excerpt.remark or in_view)

    def _read(self, call: ReadCall) -> Steps[Recalled]:
        named = yield from self._named(call.session)
        chat: AnySession = named or self._chat
        read = partial(
            chat.internals.originals, call.first, call.last, limit=_MESSAGES, rewound=call.rewound
        )
        messages: Sequence[Original] = yield from ask(read)
        if not messages:
            until = "" if call.last is None else f" to {call.last}"
            return Recalled(f"There is no message in the entries {call.first}{until}.")
        session = None if named is None else named.id
        offset = call.offset if messages[0].seq == call.first else 0
        excerpts = [_of_original(session, message) for message in messages]
        whole = excerpts[0].text
        excerpts[0] = excerpts[0]._replace(text=whole[offset:])
        page = self._budget.page(excerpts)
        end, read_up_to = page[-1], offset + len(page[0].text)
        is_full = len(messages) == _MESSAGES and messages[-1].seq != call.last
        if len(page) == 1 and read_up_to < len(whole):
            following = f"first={end.seq}, offset={read_up_to}"
        elif len(page) < len(messages) or is_full:
            following = f"first={end.seq + 1}"
        else:
            return quoted("From the history.", page)
        same = "" if session is None else f", session={session}"
        tail = f"There is more: continue with {READ_HISTORY} at {following}{same}."
        return quoted("From the history.", page, tail)

    def _named(self, name: str | None) -> Steps[AnySession | None]:
        """Open a descendant that the model names; None for the session itself."""
        if name is None or name == self._chat.id:
            return None
        # Asked for downwards, as a search does: a session between the two may be purged.
        if name in (yield from ask(self._chat.internals.family)):
            with suppress(SessionNotFound):  # it is purged itself
                return (yield from self._session(name))
        raise SessionNotFound(
            f"There is no session {name!r} among the sub-agents of this one.", session_id=name
        )

    def _session(self, name: str) -> Steps[AnySession]:
        if name == self._chat.id:
            return self._chat
        open_session: Callable[[str], Any] = self._store.session
        chat: AnySession = yield from ask(lambda: open_session(name))
        return chat


def _of_original(session: str | None, message: Original) -> Excerpt:
    stored = (message.format, message.role, message.content)
    remark = "taken back by a rewind" if message.rewound else ""
    seq, when = message.seq, message.happened_at
    return Excerpt(session, seq, when, speaker_of(*stored), passages(*stored), remark)


def _holds(message: Original, query: str) -> bool:
    """True if a message holds the words of a query without its calls of these tools."""
    role, blocks = read_message(message)
    own = [
        block
        for block in blocks
        if block.get("type") != "tool_use" or block.get("name") not in _TOOLS
    ]
    if len(own) == len(blocks):
        return True
    return occurrences(parse_query(query), composed(passages("anthropic", role, own))) is not None


class Recall(RecallRuns[Store, Session]):
    """The recall tools of one session. `budget` is the most tokens that an answer quotes."""

    def handle(self, name: str, given: Mapping[str, Any]) -> Recalled:
        """Answer a call, for a loop that stores the answer itself, with its `extra`."""
        return drive(self._handled(name, given))

    def answer(self, call: PendingCall) -> Receipt | None:
        """Answer a pending call and return the receipt; None if it is of another tool."""
        return drive(self._answered(call))


class AsyncRecall(RecallRuns[AsyncStore, AsyncSession]):
    """The same for AsyncSession."""

    async def handle(self, name: str, given: Mapping[str, Any]) -> Recalled:
        """See Recall.handle."""
        return await drive_async(self._handled(name, given))

    async def answer(self, call: PendingCall) -> Receipt | None:
        """See Recall.answer."""
        return await drive_async(self._answered(call))
