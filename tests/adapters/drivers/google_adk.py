"""Google ADK: `InMemorySessionService`, `SqliteSessionService` and `DatabaseSessionService`.

A message is an event, and an invocation of its own, so that a rewind can go to before each. The
version is the number of events. Requests are made by ADK's own code.
"""

from google.adk.agents import Agent
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events import Event, EventActions
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event_actions import EventCompaction
from google.adk.flows.llm_flows.contents import _process_compaction_events
from google.adk.flows.llm_flows.context._contents import _get_contents
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from adapters.drivers.shapes import TOOL, Changed, Loop, kept_in_memory
from roocontext.testing import Capability, History, Message, Receipt, Sent, View

APP, USER, AGENT = "probe", "user", "agent"
STORES = kept_in_memory(InMemorySessionService)
RETRIED = {}
"""The events that were sent with a key: a writer that repeats a request has the event still."""


class Service:
    """One session of a service."""

    lacks = {Capability.FORK: "no call copies a session"}

    def __init__(self, place):
        self.run = Loop()
        self._service = self.made(place)
        self._place = place
        self._key = {}
        self._held = None
        self._read = {}

    def open(self, session):
        self._key = {"app_name": APP, "user_id": USER, "session_id": session}
        if self.run(self._service.get_session(**self._key)) is None:
            self.run(self._service.create_session(**self._key))
        self._held = self._loaded()
        return Receipt(len(self._held.events))

    def append(self, new):
        repeated = self._request(new) in RETRIED
        event = self._event(new)
        if new.expected is not None and not repeated:
            self._held = self._read_at(new.expected)
        try:
            self.run(self._service.append_event(self._held, event))
        except StaleSessionError:
            if new.expected is not None and not repeated:
                raise
            self._held = self._loaded()
            self.run(self._service.append_event(self._held, event))
        return Receipt(len(self._held.events))  # it is kept current

    def view(self):
        """The events after all rewinds, with compactions in the place of what they stand for."""
        events = self._loaded().events
        version = len(events)
        shown = _process_compaction_events(_apply_rewinds(events), AGENT)
        return View(version, tuple(to_message(event.content) for event in shown if event.content))

    def sent(self):
        contents = _get_contents(
            None, self._loaded().events, AGENT, preserve_function_call_ids=True
        )
        return Sent(tuple(map(to_message, contents)), "gemini")

    def history(self):
        events = (event for event in self._loaded().events if event.content)
        return History(tuple(to_message(event.content) for event in events))

    def rewind(self, to):
        events = self._loaded().events
        if to < len(events):
            agent = Agent(name=AGENT, model="none")
            runner = Runner(app_name=APP, agent=agent, session_service=self._service)
            key = {"user_id": USER, "session_id": self._key["session_id"]}
            before = events[to].invocation_id
            self.run(runner.rewind_async(**key, rewind_before_invocation_id=before))
        return Receipt(self.view().version)

    def condense(self, plan):
        session = self._loaded()
        events = _apply_rewinds(session.events)[: plan.first]
        compaction = EventCompaction(
            start_timestamp=events[0].timestamp,
            end_timestamp=events[-1].timestamp,
            compacted_content=types.UserContent(plan.summary),
        )
        actions = EventActions(compaction=compaction)
        event = Event(author="user", invocation_id=Event.new_id(), actions=actions)
        self.run(self._service.append_event(session, event))
        return Receipt(self.view().version)

    def delete(self):
        self.run(self._service.delete_session(**self._key))

    def close(self):
        self.run.close()

    def _loaded(self):
        session = self.run(self._service.get_session(**self._key))
        self._read[len(session.events)] = session.model_copy(deep=True)
        return session

    def _read_at(self, version):
        """The session as this writer read it at a version, which the service compares."""
        if version in self._read:
            return self._read[version]
        session = self._loaded()
        if version != len(session.events):
            raise Changed
        return session

    def _event(self, new):
        author = "user" if new.message.role == "user" else AGENT
        event = Event(author=author, invocation_id=Event.new_id(), content=to_content(new.message))
        if new.retry_key is None:
            return event
        sent = RETRIED.setdefault(self._request(new), event)
        if sent.content == event.content:
            return sent.model_copy(deep=True)
        return event.model_copy(update={"id": sent.id})

    def _request(self, new):
        """The key within its store: two stores may have a session of one name."""
        return (self._place, *self._key.values(), new.retry_key)


class InMemory(Service):
    """`InMemorySessionService`."""

    lacks = {**Service.lacks, Capability.DURABLE: "it keeps sessions in the process's memory"}

    def made(self, place):
        return STORES[place]


class OnSQLite(Service):
    """`SqliteSessionService` on a file."""

    def made(self, place):
        return SqliteSessionService(place)


class OnDatabase(Service):
    """`DatabaseSessionService` by the URL of a database."""

    def made(self, place):
        return DatabaseSessionService(place)

    def close(self):
        self.run(self._service.close())
        super().close()


def to_content(message):
    """A message as contents of Gemini."""
    role = "user" if message.role == "user" else "model"
    return types.Content(role=role, parts=[_part(block) for block in message.content])


def _part(block):
    if block["type"] == "tool_use":
        call = types.FunctionCall(id=block["id"], name=block["name"], args=block["input"])
        return types.Part(function_call=call)
    if block["type"] == "tool_result":
        result = {"output": block["content"]}
        answer = types.FunctionResponse(id=block["tool_use_id"], name=TOOL, response=result)
        return types.Part(function_response=answer)
    if block["type"] == "text":
        return types.Part.model_validate({name: block[name] for name in block if name != "type"})
    return types.Part.model_validate(block)


def to_message(content):
    """Contents of Gemini as a message."""
    role = "assistant" if content.role == "model" else "user"
    return Message(role, [_block(part) for part in content.parts or ()])


def _block(part):
    if part.function_call:
        called = {"id": part.function_call.id, "name": TOOL, "input": part.function_call.args}
        return {"type": "tool_use", **called}
    if answer := part.function_response:
        result = {"tool_use_id": answer.id, "content": answer.response["output"]}
        return {"type": "tool_result", **result}
    return {"type": "text", "text": part.text}
