"""OpenCode's functions as operations of a real store, and which recordings a store can hold.

A history is told to a session message by message. A tool's part is a call in the assistant's
message and a result in the user's next one, which is no turn. Where a part is in a message of the
user's own, an assistant's message with the call comes before it, and the result is in the user's.
Where the program has a request and its finished summary, the policy is asked to compact, and its
plan is committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from roocontext import Plan, Store
from roocontext.log.plan import Action
from roocontext.log.summary import Summary
from roocontext.policies.situation import Aim, Ask, Nothing, Ready, ReportedTokens, Situation
from roocontext.programs.opencode.policy import QUESTION, OpenCode, OpenCodeUpstream
from roocontext.programs.opencode.prune import PLACEHOLDER, PastMessage, PastOutput
from roocontext.tokens import usage_tokens
from support.situations import LETTERS, situated

COMPACTING = OpenCodeUpstream()

Key = tuple[int, int]


def output_of(part: Any) -> str:
    """The output of a tool; recordings may have its length only."""
    state = part["state"]
    return state["output"] if "output" in state else "x" * state["outputLength"]


def is_cleared(part: Any) -> bool:
    """True if an output was cleared already."""
    return bool((part["state"].get("time") or {}).get("compacted"))


def step_of(message: Any) -> PastMessage[str]:
    """A recorded message as the walk over the history sees it."""
    info = message["info"]
    outputs = [
        PastOutput(part["id"], part["tool"], output_of(part), cleared=is_cleared(part))
        for part in message["parts"]
        if part["type"] == "tool" and part["state"]["status"] == "completed"
    ]
    summary = info["role"] == "assistant" and bool(info.get("summary"))
    return PastMessage(tuple(outputs), is_turn=info["role"] == "user", is_summary=summary)


def asks(message: Any) -> bool:
    """True if this is a request for a compaction."""
    parts = message["parts"]
    return message["info"]["role"] == "user" and any(part["type"] == "compaction" for part in parts)


def is_summary(message: Any, *, despite_errors: bool = True) -> bool:
    """True if the program takes this for a finished summary."""
    info = message["info"]
    finished = info["role"] == "assistant" and info.get("summary") and info.get("finish")
    return bool(finished) and (despite_errors or not info.get("error"))


def text_of(message: Any) -> str:
    """The text of a message."""
    return "\n".join(part["text"] for part in message["parts"] if part["type"] == "text")


@dataclass
class Told:
    """A session that holds a recorded history, and the recorded names of what is in it."""

    chat: Any
    despite_errors: bool = True
    ids: dict[int, str] = field(default_factory=dict)
    parts: dict[Key, str] = field(default_factory=dict)

    def all(self, messages: Sequence[Any]) -> "Told":
        """Tell it the whole history."""
        skip = False
        for index, message in enumerate(messages):
            if not skip and compacts(messages, index, despite_errors=self.despite_errors):
                self._compact(message, messages[index + 1])
                skip = True
            elif skip:
                skip = False
            else:
                self._append(message)
        return self

    def situation(self, policy: Any, aim: Aim, **facts: Any) -> Situation:
        """The situation that a policy is given."""
        facts = {"window": 200_000, "trigger": "manual", **facts}
        return situated(self.chat, LETTERS, hidden=policy.compat, aim=aim, **facts)

    def shown(self) -> list[str]:
        """The ids of the messages that the model sees; results belong to the call's message."""
        named = (self.ids.get(message.seq) for message in self.chat.view().messages)
        return [name for name in named if name is not None]

    def cleared(self) -> set[str]:
        """The parts whose outputs are cleared, hidden ones too."""
        rows = (row.message for row in self.chat.internals.live())
        return {self.parts[row.seq, block] for row in rows for block in row.cleared}

    def _append(self, message: Any) -> None:
        info = message["info"]
        tools = [part for part in message["parts"] if part["type"] == "tool"]
        calls = [
            {"type": "tool_use", "id": part["id"], "name": part["tool"], "input": {}}
            for part in tools
        ]
        ended = [part for part in tools if part["state"]["status"] in ("completed", "error")]
        if info["role"] == "user":
            if calls:
                self.chat.append("assistant", calls)
            said = QUESTION if asks(message) else text_of(message)
            self._answer(ended, {"type": "text", "text": said}, info["id"])
            return
        texts = [
            {"type": "text", "text": one["text"]}
            for one in message["parts"]
            if one["type"] == "text"
        ]
        self.ids[self.chat.append("assistant", [*texts, *calls]).seq] = info["id"]
        if ended:
            self._answer(ended)

    def _answer(self, tools: Sequence[Any], said: Any = None, name: str | None = None) -> None:
        """Results, then the user's own message of this name."""
        blocks = [result_of(part) for part in tools]
        receipt = self.chat.append("user", blocks if said is None else [*blocks, said])
        if name is not None:
            self.ids[receipt.seq] = name
        places = {(receipt.seq, block): part for block, part in enumerate(tools)}
        self.parts |= {place: part["id"] for place, part in places.items()}
        gone = [place for place, part in places.items() if is_cleared(part)]
        if gone:
            plan = {"action": Action.CLEAR, "clears": tuple(gone), "placeholder": PLACEHOLDER}
            self.chat.commit(Plan(head_seq=self.chat.head_seq(), compat=True, **plan))

    def _compact(self, request: Any, summary: Any) -> None:
        situation = self.situation(COMPACTING, Aim.CONDENSE)
        asked = COMPACTING.decide(situation)
        assert isinstance(asked, Ask)
        assert asked.hides == tuple(row.seq for row in situation.visible)
        ready = asked.compose(Summary(text=text_of(summary), summariser="recorded"))
        assert isinstance(ready, Ready)
        done = self.chat.commit(ready.plan)
        question, answer = done.rows
        assert done.seq == answer
        self.ids |= {question: request["info"]["id"], answer: summary["info"]["id"]}


def result_of(part: Any) -> dict[str, Any]:
    """A tool's part as the result that its call is answered with."""
    failed = part["state"]["status"] == "error"
    said = part["state"].get("error", "failed") if failed else output_of(part)
    flag = {"is_error": True} if failed else {}
    return {"type": "tool_result", "tool_use_id": part["id"], "content": said, **flag}


def compacts(messages: Sequence[Any], index: int, *, despite_errors: bool = True) -> bool:
    """True if a compaction begins here: the request, and the finished summary right after it.

    With nothing before it, it hides nothing: then both are messages as any other.
    """
    if not index or index + 1 == len(messages) or not asks(messages[index]):
        return False
    following = messages[index + 1]
    answers = following["info"].get("parentID") == messages[index]["info"]["id"]
    return answers and is_summary(following, despite_errors=despite_errors)


def unheld(messages: Sequence[Any], *, despite_errors: bool = True) -> str | None:
    """Why a store cannot come by the compactions of this history."""
    requests = {one["info"]["id"]: index for index, one in enumerate(messages) if asks(one)}
    for index, message in enumerate(messages):
        at = requests.get(message["info"].get("parentID", ""), index)
        if at >= index or not is_summary(message, despite_errors=despite_errors):
            continue
        if at + 1 != index:
            return "messages between a request and its summary"
        if at and not text_of(message).strip():
            return "a summary without a text"
    return None


def unlike(messages: Sequence[Any], *, compat: bool) -> str | None:
    """Why the walk over a session that was told this would not end where the program's does."""
    if reason := unheld(messages):
        return reason
    for index, message in enumerate(messages):
        info = message["info"]
        flagged = info["role"] == "assistant" and info.get("summary")
        if not flagged or not has_outputs(messages[:index]):
            continue
        if not compacts(messages, index - 1):
            return "outputs after a summary that is not finished or was not asked for"
        if not compat:
            newer = sum(one["info"]["role"] == "user" for one in messages[index + 1 :])
            if newer < 2:
                return "outputs that the model does not see, after a summary in the last turns"
    return None


def has_outputs(messages: Sequence[Any]) -> bool:
    """True if a tool has an output in these messages."""
    return any(step_of(message).outputs for message in messages)


def pruning(store: Store, given: Any, policy: Any) -> dict[str, Any] | None:
    """The outputs that the policy clears in the store, and its counts; None if it clears none."""
    told = Told(store.create()).all(given["messages"])
    before = told.cleared()
    decision = policy.decide(told.situation(policy, Aim.CLEAR))
    if isinstance(decision, Nothing):
        return None
    assert isinstance(decision, Ready)
    told.chat.commit(decision.plan)
    assert told.chat.verify().ok
    record = decision.plan.record
    gone = told.cleared() - before
    return {"total": record["outputs"], "pruned": record["pruned"], "parts": gone}


def overflows(store: Store, given: Any, policy: OpenCode | OpenCodeUpstream) -> bool:
    """True if the policy wants a summary after a call with this usage."""
    tokens, limit = given["tokens"], given["limit"]
    usage = {
        "input_tokens": tokens["input"],
        "output_tokens": tokens["output"],
        "cache_read_input_tokens": tokens["cache"]["read"],
    }
    chat = store.create()
    chat.append("user", "Why does it fail, and what can be done about it? " * 9)
    chat.append("assistant", "For want of a comma. " * 9, usage=usage)
    used = usage_tokens(chat.internals.calls()[-1].usage)
    assert used is not None
    facts = {"window": limit["context"], "output": limit["output"], "trigger": "auto"}
    told = Told(chat).situation(
        policy, Aim.MANAGE, reported=ReportedTokens(used.input, used.output, 0), **facts
    )
    decision = policy.decide(told)
    assert policy.due(told.totals) or isinstance(decision, Nothing)
    return isinstance(decision, Ask)


def seen(store: Store, part: Any) -> dict[str, str]:
    """A tool's part as the view shows it."""
    part = {"id": part["callID"], **part}
    told = Told(store.create())
    told.all([{"info": {"id": "m", "role": "assistant"}, "parts": [part]}])
    (block,) = told.chat.messages()[-1]["content"]
    if block.get("is_error"):
        return {"state": "output-error", "errorText": block["content"]}
    return {"state": "output-available", "output": block["content"]}
