"""A framework that is missing or too old gives one error, with the versions that work."""

import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

import pytest

from roocontext.adapters.serializing import framework
from roocontext.errors import FrameworkMissing
from support.defaults import live_objects, printed_defaults


def test_missing_framework_names_its_extra():
    with (
        pytest.raises(FrameworkMissing) as caught,
        framework("no-such-framework", works=">=1.2,<2", extra="langgraph"),
    ):
        import no_such_framework  # noqa: F401, PLC0415 - it fails
    assert str(caught.value) == (
        "This adapter needs no-such-framework (>=1.2,<2), which is not installed."
        " Install the extra: pip install 'roocontext[langgraph]'."
    )
    assert caught.value.found is None
    assert isinstance(caught.value, ImportError)


def test_framework_without_the_protocol_is_one_clear_error():
    with (
        pytest.raises(FrameworkMissing) as caught,
        framework("hypothesis", works=">=99", extra="langgraph"),
    ):
        from hypothesis import SessionStoreOfTheFuture  # noqa: F401, PLC0415 - it fails
    assert f"works with hypothesis >=99. Version {version('hypothesis')} lacks" in str(caught.value)
    assert caught.value.found == version("hypothesis")


@pytest.mark.parametrize(
    ("module", "protocol", "works"),
    [
        ("claude_agent_sdk", "claude_agent_sdk", r"works with claude-agent-sdk >=0\.2"),
        ("google_adk", "google.adk.sessions", r"works with google-adk >=2.13,<3. Version 2"),
        ("langgraph", "langgraph.checkpoint.base", r"works with langgraph-checkpoint >=4.3,<5"),
        ("openai_agents", "agents.memory", r"openai-agents >=0.24,<0.25. Version 0.24"),
        ("pydantic_ai", "pydantic_ai.conversation_store", r"works with pydantic-ai-slim >=2\.68"),
    ],
)
def test_adapter_for_another_version_is_one_clear_error(monkeypatch, module, protocol, works):
    own = f"roocontext.adapters.{module}"
    import_module(own)
    monkeypatch.setitem(sys.modules, protocol, ModuleType(protocol))
    for name in [name for name in sys.modules if name.startswith(own)]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(FrameworkMissing, match=works):
        import_module(own)


def test_no_default_of_an_adapter_is_an_object_of_this_process():
    found = list(printed_defaults())
    assert any(".adapters.langgraph" in name for name, _ in found)
    assert live_objects(found) == []
