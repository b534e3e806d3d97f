"""How the calls of the recall tools are answered, for both interfaces.

The model reaches the session's own messages and those of its descendants, never those of its
parent. It never reaches what was redacted, and what was rewound only if it asks.

Answers the calls of the recall tools: for Session, and for AsyncSession.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from roocontext.context.steps import Steps, ask, drive, drive_async
from roocontext.errors import InvalidIdentifier, InvalidOption, SessionNotFound
from roocontext.log.counting import Counter
from roocontext.log.readings import reader
from roocontext.log.summary import READ_HISTORY, SEARCH_HISTORY
from roocontext.log.turns import PendingCall
from roocontext.recall.answers import AnswerBudget, Excerpt, Recalled, quoted
from roocontext.recall.definitions import ReadCall, SearchCall, definitions, read_call, search_call
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
"""How many hits a page has."""
_MESSAGES: Final = 50
"""How many messages are read at once; most answers have room for fewer."""
_TOOLS: Final = (SEARCH_HISTORY, READ_HISTORY)
IN_VIEW: Final = "still in your context"

AnySession: TypeAlias = Session | AsyncSession


class RecallRuns:
    """The answers, as runs that either interface drives."""

    def __init__(
        self,
        store: Store | AsyncStore,
        chat: AnySession,
        *,
        budget: int,
        counter: Counter | str | None,
    ) -> None:
        if type(budget) is not int or budget < 1:
            raise InvalidOption("budget is a number of tokens, at least 1.", name="budget")
        counting = counter_for("", name=counter) if isinstance(counter, str | None) else counter
        self._store = store
        self._chat = chat
        self._budget = AnswerBudget(budget, lambda text: counting.count("user", text, "anthropic"))

    def tools(self, form: str = "anthropic") -> list[dict[str, Any]]:
        """The definitions of the tools; `Session.request` converts those of any form."""
        return definitions(form)

    def handles(self, name: str) -> bool:
        """Whether a tool of this name is one of these."""
        return name in _TOOLS

    def _handled(self, name: str, given: Any) -> Steps[Recalled]:
        """The answer to a call; it explains what is wrong with the call."""
        if not self.handles(name):
            raise InvalidOption(f"There is no recall tool {name!r}.", name="name")
        try:
            if name == SEARCH_HISTORY:
                return (yield from self._searched(search_call(given)))
            return (yield from self._read(read_call(given)))
        except (InvalidOption, SessionNotFound) as error:
            return Recalled(error.fact, is_error=True)

    def _answered(self, call: PendingCall) -> Steps[Receipt | None]:
        """Answer a pending call, if it is of one of these tools."""
        if not self.handles(call.name):
            return None
        made = yield from self._handled(call.name, call.input)
        extra, is_error = made.extra, made.is_error
        return (
            yield from ask(
                lambda: self._chat.answer(call, made.text, is_error=is_error, extra=extra)
            )
        )

    # Searching

    def _searched(self, call: SearchCall) -> Steps[Recalled]:
        named = yield from self._named(call.session)
        end = call.page * HITS
        found: list[Excerpt] = []
        after: str | None = None
        while len(found) <= end:
            page = yield from self._page(call, named, after)
            found += yield from self._excerpts(page, call.query)
            after = page.next
            if after is None:
                break
        # The model need not be shown first what it sees.
        hits = sorted(found[end - HITS : end], key=lambda one: one.remark == IN_VIEW)
        if not hits:
            return Recalled("No message of the history holds all of these words.")
        shown = self._budget.page(hits).shown
        left = len(hits) - len(shown)
        cut = f"{left} more of this page did not fit: use more words." if left else ""
        more = f"There are more hits on page {call.page + 1}." if len(found) > end else ""
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
        """The hits that are messages and say it, instead of asking these tools for it."""
        excerpts: list[Excerpt] = []
        for hit in hits:
            chat = yield from self._session(hit.session_id)
            read = partial(chat.internals.originals, hit.seq, hit.seq, rewound=True)
            found: Sequence[Original] = yield from ask(read)
            excerpts += [self._of_hit(hit, one) for one in found if _holds(one, query)]
        return excerpts

    def _of_hit(self, hit: Hit, one: Original) -> Excerpt:
        is_own = hit.session_id == self._chat.id
        excerpt = _of_original(None if is_own else hit.session_id, one)
        shown = hit.snippet
        text = f"{'…' if shown.is_continued else ''}{shown.text}{'…' if shown.continues else ''}"
        in_view = IN_VIEW if is_own and hit.visible and not hit.cleared else ""
        return excerpt._replace(text=text, remark=excerpt.remark or in_view)

    # Reading

    def _read(self, call: ReadCall) -> Steps[Recalled]:
        named = yield from self._named(call.session)
        chat: AnySession = named or self._chat
        read = partial(
            chat.internals.originals, call.first, call.last, limit=_MESSAGES, rewound=call.rewound
        )
        found: Sequence[Original] = yield from ask(read)
        if not found:
            until = "" if call.last is None else f" to {call.last}"
            return Recalled(f"There is no message in the entries {call.first}{until}.")
        session = None if named is None else named.id
        offset = call.offset if found[0].seq == call.first else 0
        excerpts = [_of_original(session, one) for one in found]
        whole = excerpts[0].text
        excerpts[0] = excerpts[0]._replace(text=whole[offset:])
        page = self._budget.page(excerpts)
        end = page.shown[-1]
        if len(page.shown) == 1 and offset + page.characters < len(whole):
            following = f"first={end.seq}, offset={offset + page.characters}"
        elif len(page.shown) < len(found) or (
            len(found) == _MESSAGES and found[-1].seq != call.last
        ):
            following = f"first={end.seq + 1}"
        else:
            return quoted("From the history.", page.shown)
        same = "" if session is None else f", session={session}"
        tail = f"There is more: continue with {READ_HISTORY} at {following}{same}."
        return quoted("From the history.", page.shown, tail)

    # Sessions

    def _named(self, name: str | None) -> Steps[AnySession | None]:
        """A descendant that the model names; None for the session itself."""
        if name is None or name == self._chat.id:
            return None
        line = f"There is no session {name!r} among the sub-agents of this one."
        try:
            chat = one = yield from self._session(name)
            seen = {None, self._chat.id}  # in a damaged database parents may go round
            while one.parent not in seen:
                seen.add(one.parent)
                one = yield from self._session(str(one.parent))
        except (SessionNotFound, InvalidIdentifier):
            raise SessionNotFound(line, session_id=name) from None
        if one.parent != self._chat.id:
            raise SessionNotFound(line, session_id=name)
        return chat

    def _session(self, name: str) -> Steps[AnySession]:
        if name == self._chat.id:
            return self._chat
        opened: Callable[[str], Any] = self._store.session
        found: AnySession = yield from ask(lambda: opened(name))
        return found


def _of_original(session: str | None, one: Original) -> Excerpt:
    speaker = speaker_of(one.format, one.role, one.content)
    remark = "taken back by a rewind" if one.rewound else ""
    text = passages(one.format, one.role, one.content)
    return Excerpt(session, one.seq, one.happened_at, speaker, text, remark)


def _holds(one: Original, query: str) -> bool:
    """Whether a message holds the words of a query without its calls of these tools."""
    role, blocks = reader(one.format).blocks(one.role, one.content)
    own = [block for block in blocks if not _is_recall(block)]
    if len(own) == len(blocks):
        return True
    return occurrences(parse_query(query), composed(passages("anthropic", role, own))) is not None


def _is_recall(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_use" and block.get("name") in _TOOLS


class Recall(RecallRuns):
    """The recall tools of one session. `budget` is the most tokens that an answer quotes."""

    def __init__(
        self,
        store: Store,
        chat: Session,
        *,
        budget: int = 2_000,
        counter: Counter | str | None = None,
    ) -> None:
        if not isinstance(store, Store) or not isinstance(chat, Session):
            raise InvalidOption("Recall takes a Store and a Session.", name="chat")
        super().__init__(store, chat, budget=budget, counter=counter)

    def handle(self, name: str, given: Mapping[str, Any]) -> Recalled:
        """The answer to a call, for a loop that stores it itself, with its `extra`."""
        return drive(self._handled(name, given))

    def answer(self, call: PendingCall) -> Receipt | None:
        """Answer one of `pending()` and return the receipt; None if it is of another tool."""
        return drive(self._answered(call))


class AsyncRecall(RecallRuns):
    """The same for AsyncSession."""

    def __init__(
        self,
        store: AsyncStore,
        chat: AsyncSession,
        *,
        budget: int = 2_000,
        counter: Counter | str | None = None,
    ) -> None:
        if not isinstance(store, AsyncStore) or not isinstance(chat, AsyncSession):
            raise InvalidOption("AsyncRecall takes an AsyncStore and an AsyncSession.", name="chat")
        super().__init__(store, chat, budget=budget, counter=counter)

    async def handle(self, name: str, given: Mapping[str, Any]) -> Recalled:
        """See Recall.handle."""
        return await drive_async(self._handled(name, given))

    async def answer(self, call: PendingCall) -> Receipt | None:
        """See Recall.answer."""
        return await drive_async(self._answered(call))
