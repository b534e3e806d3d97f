"""Policies asked about a session: the conversation, the decision, and the summary."""

from typing import Any

from roocontext.log.readings import text_of
from roocontext.log.summary import Summary
from roocontext.policies.situation import Aim, Nothing, Situation
from support.dialogue import WORDS
from support.situations import LETTERS, situated


def talk(chat: Any, turns: int, words: str = WORDS) -> list[tuple[int, int]]:
    """Append turns of a question and its answer; their seqs."""
    return [
        (chat.append("user", f"question {n} {words}").seq, chat.append("assistant", words).seq)
        for n in range(turns)
    ]


def seen(chat: Any, policy: Any = None, **facts: Any) -> Situation:
    """The situation that this policy is given; by default in a window that nothing fills."""
    hidden = policy is not None and policy.compat
    return situated(chat, LETTERS, **{"window": 1 << 40, "hidden": hidden, **facts})


def cost(chat: Any, *seqs: int) -> int:
    return sum(row.size.tokens for row in seen(chat).visible if row.seq in seqs)


def decided(chat: Any, policy: Any, **facts: Any) -> Any:
    """The policy's decision; it does nothing if it was not due."""
    situation = seen(chat, policy, **facts)
    decision = policy.decide(situation)
    if situation.aim is Aim.MANAGE:
        assert policy.due(situation.totals) or isinstance(decision, Nothing)
    return decision


def summary(said: str = "in short") -> Summary:
    return Summary(text=said, summariser="test")


def texts(request: Any) -> list[str]:
    """The texts of the messages that a summariser is asked about."""
    return [text_of(message["content"]) for message in request.messages]
