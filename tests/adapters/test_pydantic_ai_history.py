"""The effective history: what a history processor of pydantic-ai gets from our view."""

from typing import Any

from pydantic_ai import Conversation
from pydantic_ai.messages import CompactionPart, ModelRequest, SystemPromptPart, UserPromptPart

from roocontext import NewMessage
from roocontext.log.plan import Action, Plan
from support.pydantic_ai_driver import WHEN, PydanticAIDriver, said, texts_of

DRIVER = PydanticAIDriver


def condense(chat: Any, first: int, last: int) -> None:
    """Hide these messages with a summary, as a manager would."""
    view = chat.view()
    seqs = [message.seq for message in view.messages]
    chat.commit(
        Plan(
            head_seq=view.head_seq,
            action=Action.CONDENSE,
            hides=((seqs[first], seqs[last]),),
            rows=(NewMessage("user", "What was said before."),),
            compat=True,
        )
    )


class Context:
    """As much of a RunContext as a history processor sees."""

    def __init__(self, conversation_id: str | None) -> None:
        self.conversation_id = conversation_id


def test_processor_gives_the_view_and_the_new_messages(driver):
    driver.save("t", "u1", "a1", "u2", "a2", "u3", "a3")
    messages = [*driver.run(driver.adapter.load("t")).messages, said("u4")]

    def effective(messages: Any, name: str | None = "t") -> Any:
        return driver.run(driver.adapter.effective_history(Context(name), list(messages)))

    assert effective(messages) == messages
    condense(driver.chat("t"), 0, 3)
    shown = effective(messages)
    assert texts_of(shown) == ["What was said before.", "u3", "a3", "u4"]
    assert isinstance(shown[0].parts[0], CompactionPart)
    # The next request of the same run begins with what the processor has returned.
    assert effective([*shown, said("a4"), said("u5")]) == [*shown, said("a4"), said("u5")]
    assert driver.texts("t") == ["u1", "a1", "u2", "a2", "u3", "a3"]
    assert texts_of(driver.run(driver.adapter.load("t", limit=3)).messages) == ["a2", "u3", "a3"]
    condense(driver.chat("t"), 1, 2)  # now the newest stored message is hidden
    again = effective(messages)
    assert texts_of(again) == ["What was said before."] * 2 + ["u4"]
    assert effective([*again, said("a4")]) == [*again, said("a4")]
    for name in (None, "unknown"):
        assert effective(messages, name) == messages
    assert effective([said("u9")]) == [said("u9")]  # it was given a history of its own


def test_system_prompt_survives_a_summary(quick):
    first = ModelRequest(
        parts=[SystemPromptPart("be kind", timestamp=WHEN), UserPromptPart("u1", timestamp=WHEN)],
        timestamp=WHEN,
    )
    talk = Conversation(conversation_id="t", messages=[first, said("a1"), said("u2"), said("a2")])
    quick.run(quick.adapter.save(talk))
    condense(quick.chat("t"), 0, 1)
    messages = [*quick.run(quick.adapter.load("t")).messages, said("u3")]
    shown = quick.run(quick.adapter.effective_history(Context("t"), messages))
    assert texts_of(shown) == ["be kind", "What was said before.", "u2", "a2", "u3"]
    assert quick.run(quick.adapter.effective_history(Context("t"), [*shown, said("a3")])) == [
        *shown,
        said("a3"),
    ]


def test_rows_of_other_formats_are_shown_as_texts(quick):
    quick.save("t", "u1", "a1")
    chat = quick.chat("t")
    chat.append("user", "by hand", ts=(1 << 63) - 1)  # a time that no calendar has
    chat.append("assistant", [{"type": "text", "text": "an answer"}])
    chat.append("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}])
    messages = [*quick.run(quick.adapter.load("t")).messages, said("u2")]
    shown = quick.run(quick.adapter.effective_history(Context("t"), messages))
    assert texts_of(shown) == ["u1", "a1", "by hand", "an answer", "u2"]
    quick.save("t", "u2")
    assert quick.texts("t") == ["u1", "a1", "u2"]
