"""The tools of the server. Each answers with a document, as `--json` prints it, of limited size."""

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator

from roocontext import reports
from roocontext.log.values import as_json
from roocontext.reports.history import PAGE_BYTES, Selection
from roocontext.search.passages import Speaker
from roocontext.search.query import Among, Order

if TYPE_CHECKING:
    from roocontext import Session, Store


_LONE: Final = re.compile("[\ud800-\udfff]")


def answer_text(document: Any, longest: int) -> str:
    """A document as JSON, in which texts are cut that have more than `longest` characters.

    The `next` of a page is not cut, because a client sends it back.
    """
    fields = as_json(document)
    following = {"next": fields["next"]} if "next" in fields else {}
    text = json.dumps(cut_texts(fields, longest) | following, ensure_ascii=False)
    # A protocol message is UTF-8, which has no lone surrogates. JSON has an escape for them.
    return _LONE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def cut_texts(value: Any, longest: int) -> Any:
    """Cut long texts in the middle, at any depth, and insert how many characters are left out."""
    if isinstance(value, str):
        if len(value) <= longest:
            return value
        half = longest // 2
        left_out = len(value) - 2 * half
        return f"{value[:half]}\n[{left_out:,} characters left out]\n{value[-half:]}"
    # No comprehensions: they take a second frame a level, and contents may be 500 levels deep.
    if isinstance(value, list):
        items: list[Any] = []
        for item in value:
            items.append(cut_texts(item, longest))  # noqa: PERF401
        return items
    if isinstance(value, dict):
        fields: dict[str, Any] = {}
        for name, item in value.items():
            fields[name] = cut_texts(item, longest)
        return fields
    return value


def about(description: str, **limits: Any) -> Any:
    """The field of a parameter: its description for the model, and its limits."""
    return Field(description=description, **limits)


LONGEST: Final = 2_000
"""The most characters of a text in an answer, by default."""

SessionName = Annotated[
    str,
    about(
        "A session's id or the beginning of it, `last`, `last~1` for the one before,"
        " or `=` followed by the whole id."
    ),
]
Seq = Annotated[int, about("The number of an entry in its session.", ge=1)]
Limit = Annotated[int, about("At most this many.", ge=1, le=200)]
Longest = Annotated[
    int, about("Texts with more characters are cut in the middle.", ge=2, le=100_000)
]
After = Annotated[str | None, about("The `next` of the page before, for the next page.")]


def _text_or_blocks(value: Any, check_text: ValidatorFunctionWrapHandler) -> Any:
    """The blocks of a list, which the store checks, or a text."""
    return value if isinstance(value, list) else check_text(value)


Content = Annotated[
    # A text for the SDK: it would read JSON in the text of a parameter that may be a list.
    str,
    WrapValidator(_text_or_blocks),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]}),
    about("A text, or a list of content blocks."),
]
Expected = Annotated[
    int | None, about("Refuse if the session has changed since this `head_seq` was read.")
]


class StoreTools:
    """The tools over a store. None of them deletes anything."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    def search_history(
        self,
        query: Annotated[
            str,
            about(
                "Words that a message must all contain. A phrase in quotation marks is"
                " found as it is written, and begin* finds every word that begins like that."
            ),
        ],
        session: Annotated[str | None, about("Only in this session and its descendants.")] = None,
        *,
        role: Annotated[Speaker | None, about("Only messages of this speaker.")] = None,
        tool: Annotated[str | None, about("Only the calls and outputs of this tool.")] = None,
        among: Annotated[
            Among,
            about(
                "standing: messages that are not rewound; visible: those that the model"
                " sees now; hidden: those that a summary or marker hides."
            ),
        ] = "all",
        order: Order = "best",
        limit: Limit = 20,
        after: After = None,
    ) -> str:
        """Search the messages of all sessions, including hidden and rewound messages.

        Each hit has its session, its seq, a snippet, and the entry that hides it from the model.
        """
        family = None if session is None else reports.naming.parent_named(self._store, session)
        reports.search.refresh_index(self._store)
        page = self._store.search(
            query,
            family=family,
            role=role,
            tool=tool,
            among=among,
            order=order,
            limit=limit,
            after=after,
        )
        return answer_text(reports.search.found(query, page), LONGEST)

    def read_history(
        self,
        session: SessionName,
        first: Seq = 1,
        limit: Limit = 20,
        after: After = None,
        longest: Longest = LONGEST,
    ) -> str:
        """Read entries of a session's log, beginning with entry `first`, hidden and rewound too.

        Each says whether the model sees it now, and if not, which entry hides it. A page has fewer
        than `limit` entries if they are large; `next` continues it, as of the same moment.
        """
        page = reports.history.some_entries(self._chat(session), first, limit, after=after)
        return answer_text(page, longest)

    def list_sessions(
        self,
        text: Annotated[str, about("A text in the id, title or first prompt. Empty: all.")] = "",
        parent: Annotated[
            str | None, about("Only the children of this session, named as elsewhere.")
        ] = None,
        limit: Limit = 20,
        after: After = None,
    ) -> str:
        """List sessions, the newest first, with their titles, sizes and context gauges."""
        above = None if parent is None else reports.naming.parent_named(self._store, parent)
        page = reports.sessions.matching_sessions(
            self._store, text, parent=above, limit=limit, after=after
        )
        return answer_text(page, LONGEST)

    def show_session(
        self, session: SessionName, limit: Limit = 20, longest: Longest = LONGEST
    ) -> str:
        """Show the newest messages of a session that the model sees now.

        There are fewer than `limit` if they are large.
        """
        selection = Selection(newest=limit, most_bytes=PAGE_BYTES)
        history = reports.history.effective_history(self._chat(session), None, selection=selection)
        return answer_text(history, longest)

    def why_hidden(self, session: SessionName, seq: Seq) -> str:
        """Say whether the model sees an entry, and if not, what hides it and how to undo that."""
        return answer_text(reports.why.why(self._chat(session), seq), LONGEST)

    def append(
        self,
        session: SessionName,
        content: Content,
        role: Annotated[str, about("user or assistant.")] = "user",
        client_id: Annotated[
            str | None, about("An id of this request: a repetition with it is stored once.")
        ] = None,
        expected_seq: Expected = None,
    ) -> str:
        """Append a message to a session. It is durable when the answer arrives."""
        chat = self._chat(session)
        done = chat.append(role, content, client_id=client_id, expected_seq=expected_seq)
        return answer_text(done, LONGEST)

    def rewind(
        self,
        session: SessionName,
        to: Annotated[int, about("The entry to go back to; 0 is the start.", ge=0)],
        expected_seq: Expected = None,
        *,
        dry_run: Annotated[bool, about("Only show what would be done.")] = False,
    ) -> str:
        """Return a session to its state right after entry `to`. Nothing is deleted.

        To undo it, rewind to the entry before the rewind.
        """
        chat = self._chat(session)
        done = chat.rewind(to, expected_seq=expected_seq, dry_run=dry_run)
        return answer_text(reports.undo.rewound_report(chat, done), LONGEST)

    def _chat(self, name: str) -> "Session":
        return self._store.session(reports.naming.session_named(self._store, name))
