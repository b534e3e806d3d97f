"""A chat service with several workers on one PostgreSQL database.

    export DATABASE_URL=postgresql://... ANTHROPIC_API_KEY=...
    roocontext --db "$DATABASE_URL" db upgrade         # the job of a deployment
    uvicorn --app-dir examples/service --timeout-graceful-shutdown 10 app:app

Each worker is a process of its own, and any of them can serve any request: what a worker needs to
know is in the store. A user is the owner of their chats, and is named by the header X-User, which a
real service takes from its login. A reply is streamed as server-sent events, and is recorded
whether or not somebody reads it.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from roocontext import AsyncSession, AsyncStore, RooContextError, StoreUnavailable
from roocontext.errors import Category, TurnLost, TurnTaken

MODEL = os.environ.get("MODEL", "claude-sonnet-4-5")
LEASE = float(os.environ.get("LEASE", "30"))
"""For so many seconds a chat waits for a worker that died in it."""
SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}}
TOOLS: list[Any] = [{"name": "look_up", "description": "An order.", "input_schema": SCHEMA}]
STATUS = {Category.USAGE: 400, Category.NOT_FOUND: 404, Category.CONFLICT: 409}
client = anthropic.AsyncAnthropic()
INTERRUPTED = "The tool was interrupted, and may have run."


async def look_up(call_id: str, order: str) -> str:
    """The tool: it leaves a trace, so that one can see how often it ran."""
    if log := os.environ.get("TOOL_LOG"):
        with Path(log).open("a") as file:
            file.write(f"{call_id}\n")
    await asyncio.sleep(float(os.environ.get("TOOL_SECONDS", "0.05")))
    return f"Order {order} is on its way."


async def run(chat: AsyncSession) -> AsyncIterator[dict[str, Any]]:
    """Work on a chat until it is the user's turn again, as the one worker that does."""
    stopped = await stops(chat)
    async with chat.turn(lease=LEASE, wait=2 * LEASE) as turn:
        while (waits_for := await turn.waits_for()) != "user":
            if await stops(chat) != stopped:
                yield {"stopped": True}
                return
            async for event in run_tools(turn) if waits_for == "tools" else ask(turn, stopped):
                yield event
        yield {"done": True}


async def ask(turn: AsyncSession, stopped: int) -> AsyncIterator[dict[str, Any]]:
    """Ask the model. What it said until a stop or a failure is recorded too."""
    request = await turn.request("anthropic", model=MODEL)
    async with client.messages.stream(
        model=MODEL, max_tokens=4_000, tools=TOOLS, **request
    ) as reply:
        await anext(reply)  # the beginning of the message, or the provider's error
        try:
            async for text in reply.text_stream:
                yield {"text": text}
                if await stops(turn) != stopped:
                    break
        finally:
            if reply.current_message_snapshot.content:
                await turn.record(reply.current_message_snapshot, request)


async def run_tools(turn: AsyncSession) -> AsyncIterator[dict[str, Any]]:
    """Answer the calls that wait. One that a dead worker had begun is not run again."""
    for call in await turn.pending():
        if call.begun or call.cut_off:
            await turn.answer(call, INTERRUPTED, is_error=True)
            yield {"interrupted": call.id}
        elif (await turn.begin(call)).new:
            yield {"begun": call.id}
            await turn.answer(call, await look_up(call.id, str(call.input.get("order"))))
            yield {"answered": call.id}


async def stops(chat: AsyncSession) -> int:
    """The newest stop of a chat: a note, because another worker may have taken the request."""
    note = await chat.newest_note("stop")
    return 0 if note is None else note.seq


async def store_of(request: Request) -> AsyncStore:
    """The store of the user, in which the chats of others do not exist."""
    user, state = request.headers.get("x-user", ""), request.app.state
    if not user:
        raise HTTPException(401, "X-User is missing")
    async with state.opening:
        if user not in state.stores:  # many thousands of users: close those that are idle
            state.stores[user] = await opened(user)
    store: AsyncStore = state.stores[user]
    return store


async def chat_of(request: Request) -> AsyncSession:
    """The chat that the path names."""
    return await (await store_of(request)).session(request.path_params["chat"])


async def create(request: Request) -> Response:
    """Begin a chat."""
    chat = await (await store_of(request)).create()
    return JSONResponse({"chat": chat.id}, 201)


async def chats(request: Request) -> Response:
    """The user's chats, the newest first, page by page."""
    store, asked = await store_of(request), request.query_params
    limit = min(int(asked.get("limit", "20")), 100)
    page = await store.sessions(limit=limit, after=asked.get("after"))
    found = [{"chat": one.session_id, "messages": one.messages} for one in page]
    return JSONResponse({"chats": found, "next": page.next})


async def show(request: Request) -> Response:
    """A chat as the model sees it, whose turn it is, and the calls without an answer."""
    chat = await chat_of(request)
    waiting = [{"id": call.id, "begun": call.begun} for call in await chat.pending()]
    about = {"waits_for": await chat.waits_for(), "pending": waiting}
    return JSONResponse({"messages": await chat.messages("anthropic"), **about})


async def say(request: Request) -> Response:
    """Say something, and stream the reply. It can be repeated: the key makes it one message."""
    chat = await chat_of(request)
    told = json.loads(await request.body())
    receipt = await chat.append("user", told["text"], client_id=told["key"])
    return streamed(request, chat, {"seq": receipt.seq, "new": receipt.new})


async def resume(request: Request) -> Response:
    """Continue after a stop, a closed connection or a worker that died."""
    return streamed(request, await chat_of(request))


async def stop(request: Request) -> Response:
    """Stop the reply, whichever worker streams it."""
    await (await chat_of(request)).note("stop", {})
    return Response(status_code=204)


async def live(request: Request) -> Response:
    """The user's chats as they change, after a cursor or from now on."""
    store = await store_of(request)
    changes = store.changes(request.query_params.get("after") or await store.change_cursor())

    async def events() -> AsyncIterator[str]:
        async with changes as feed:
            while True:
                yield ": alive\n\n"
                for change in await feed.read(timeout=15):
                    yield line({"chat": change.session_id, "cursor": change.cursor})

    return StreamingResponse(events(), media_type="text/event-stream")


def streamed(request: Request, chat: AsyncSession, *first: dict[str, Any]) -> Response:
    """Start a run, and stream its events."""
    events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    runs: set[asyncio.Task[None]] = request.app.state.runs
    task = asyncio.create_task(worked(chat, events))
    runs.add(task)
    task.add_done_callback(runs.discard)

    async def shown() -> AsyncIterator[str]:
        for one in first:
            yield line(one)
        while (told := await events.get()) is not None:
            yield line(told)

    return StreamingResponse(shown(), media_type="text/event-stream")


async def worked(chat: AsyncSession, events: asyncio.Queue[dict[str, Any] | None]) -> None:
    """Run to the end, whether or not somebody reads the events."""
    try:
        async for one in run(chat):
            events.put_nowait(one)
    except (TurnTaken, TurnLost) as busy:
        events.put_nowait({"busy": type(busy).__name__})
    except (StoreUnavailable, anthropic.APIError) as failed:
        events.put_nowait({"failed": type(failed).__name__})
    finally:
        events.put_nowait(None)


def line(data: dict[str, Any]) -> str:
    """An event of a stream."""
    return f"data: {json.dumps(data)}\n\n"


async def health(request: Request) -> Response:
    """Say that the database answers, and that this release may use it."""
    await request.app.state.own.ping()
    return Response(status_code=204)


async def refused(_: Request, error: Any) -> Response:
    """Answer an error of the store, whose text holds nothing that was said."""
    return JSONResponse({"error": str(error)}, STATUS.get(error.category, 503))


async def opened(owner: str) -> AsyncStore:
    """A store of few connections: the pooler has those to the server."""
    url = os.environ["DATABASE_URL"]
    return await AsyncStore.open(url, owner=owner, upgrade=False, pool_size=1, max_overflow=3)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Open a store for the health checks with the process, and those of the users as they come."""
    state = app.state
    state.own, state.stores, state.runs = await opened("the service itself"), {}, set()
    state.opening = asyncio.Lock()
    yield
    await asyncio.gather(*state.runs)  # what is running is finished before the process ends
    for store in (state.own, *state.stores.values()):
        await store.close()


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/chats", chats),
        Route("/chats", create, methods=["POST"]),
        Route("/chats/{chat}", show),
        Route("/chats/{chat}/messages", say, methods=["POST"]),
        Route("/chats/{chat}/resume", resume, methods=["POST"]),
        Route("/chats/{chat}/stop", stop, methods=["POST"]),
        Route("/live", live),
        Route("/health", health),
    ],
    exception_handlers={RooContextError: refused},
)
