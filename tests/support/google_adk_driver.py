"""Conversations of Google ADK to test with: a service, and events of every kind."""

from google.adk.events import Event, EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from roocontext.adapters.google_adk import RooContextSessionService


def given(plain):
    return plain


class GoogleADKDriver:
    """A store, and a loop to await its service in."""

    def __init__(self, lab):
        self.url = lab.url
        self.run = lab.store._runner.run
        self.store = lab.store.target
        self.sync = self.run(self.store.run(given))
        self.service = RooContextSessionService(self.store)
        self._users = 0

    def user(self):
        self._users += 1
        return {"app_name": f"app{self._users}", "user_id": "u"}

    def create(self, user=None, **options):
        return self.run(self.service.create_session(**(user or self.user()), **options))

    def get(self, session, **config):
        return self.run(
            self.service.get_session(
                app_name=session.app_name,
                user_id=session.user_id,
                session_id=session.id,
                config=GetSessionConfig(**config) if config else None,
            )
        )

    def append(self, session, event):
        return self.run(self.service.append_event(session, event))

    def chat(self, session):
        return self.sync.session(f"google-adk:{session.app_name}/{session.user_id}/{session.id}")

    def texts(self, session):
        messages = self.chat(session).view().messages
        return ["".join(part.get("text", "") for part in m.content["parts"]) for m in messages]


def text_event(text, author="user", **fields):
    role = "user" if author == "user" else "model"
    return Event(author=author, content=Content(role=role, parts=[Part(text=text)]), **fields)


def changed(**delta):
    return Event(
        author="user",
        actions=EventActions(state_delta={k.replace("__", ":"): v for k, v in delta.items()}),
    )


EVENTS = [
    text_event("Which files?", invocation_id="i1"),
    Event(
        author="coder",
        invocation_id="i1",
        content=Content(
            role="model",
            parts=[
                Part(text="Hm.", thought=True, thought_signature=b"\xff\xfe"),
                Part(function_call=FunctionCall(id="c1", name="ls", args={"a": [1, 1.0, None]})),
            ],
        ),
        long_running_tool_ids={"c1"},
        model_version="gemini-3-pro",
        usage_metadata={"prompt_token_count": 9, "candidates_token_count": 2},
        branch="a.b",
    ),
    Event(
        author="coder",
        invocation_id="i1",
        content=Content(
            role="user",
            parts=[
                Part(function_response=FunctionResponse(id="c1", name="ls", response={"r": "x"})),
                Part.from_bytes(data=b"\x89PNG\xff", mime_type="image/png"),
            ],
        ),
        actions=EventActions(artifact_delta={"f": 1}, skip_summarization=True),
    ),
    Event(author="coder", error_code="X", error_message="failed", custom_metadata={"n": 2**70}),
    Event(author="coder", content=Content(role="model", parts=[])),
    Event(author="coder", content=Content(role="odd", parts=[Part(text="another role")])),
    Event(author="coder", content=Content(parts=[Part(text="lone \ud800 and NUL \0")])),
    Event(author="coder", actions=EventActions(transfer_to_agent="other", escalate=True)),
]


def compacted(start, end, text):
    return Event(
        author="user",
        actions=EventActions(
            compaction={
                "start_timestamp": start,
                "end_timestamp": end,
                "compacted_content": Content(role="model", parts=[Part(text=text)]),
            }
        ),
    )
