"""Values that a caller gets are plain JSON by `to_dict`."""

import inspect
import json
from typing import get_args, get_type_hints

import pytest

from roocontext import ContextManager, NewMessage, Plan, Session, Store
from roocontext.recall import Recall
from support.async_manager import manager


def results() -> set[type]:
    """The classes of ours that public methods return, directly or in a list."""
    found: set[type] = set()

    def add(hint: object) -> None:
        for part in get_args(hint):
            add(part)
        if isinstance(hint, type) and hint.__module__.startswith("roocontext."):
            found.add(hint)

    for owner in (Store, Session, ContextManager, Recall):
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("_") and name not in {"changes", "keep_open", "search", "turn"}:
                add(get_type_hints(method).get("return"))
    return found - {Session, Store}


@pytest.mark.parametrize("kind", sorted(results(), key=lambda kind: kind.__name__))
def test_every_returned_value_has_to_dict(kind):
    assert callable(getattr(kind, "to_dict", None)) or issubclass(kind, str), kind


def test_values_are_plain_json(store):
    chat = store.create(title="titled", metadata={"a": 1})
    receipt = chat.append("user", "x" * 200)
    chat.append_many([NewMessage("assistant", "a lone \udc80 surrogate"), NewMessage("user", "?")])
    committed = chat.commit(Plan.condense(chat.view(), [receipt.seq], "short"))
    rewound, undone = chat.rewind(to=1), chat.undo()
    values = [
        *(receipt, committed, rewound, undone, chat.info(), chat.view(), chat.stats(), chat.head()),
        *(
            chat.verify(),
            chat.diff(1),
            *chat.audit(),
            *chat.internals.stored(),
            *chat.internals.calls(),
            *chat.usage(),
        ),
        *(store.overview(), *chat.repairs(), chat.redact(receipt.seq, dry_run=True)),
        *(manager(chat, limit=100_000).manage(chat), store.purge(chat.id, dry_run=True)),
    ]
    for value in values:
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            plain = part.to_dict()
            assert json.loads(json.dumps(plain)) == plain
    assert committed.to_dict()["action"] == "condense"
    assert [one["seq"] for one in chat.view().to_dict()["messages"]] == [
        message.seq for message in chat.view().messages
    ]


def test_request_with_an_image_for_boto3_is_plain_json(store):
    chat = store.create()
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    chat.append("user", [{"type": "image", "source": source}])
    request = chat.request("bedrock-converse")
    image = {"format": "png", "source": {"bytes": b"hi"}}
    assert request["messages"] == [{"role": "user", "content": [{"image": image}]}]
    plain = request.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    image["source"]["bytes"] = "aGk="
    assert plain["body"]["messages"] == [{"role": "user", "content": [{"image": image}]}]
