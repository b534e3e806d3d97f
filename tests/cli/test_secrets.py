"""Nothing that describes the library prints a secret: no default, no repr, no error."""

import inspect
import pydoc

import pytest

from roocontext import AsyncContextManager, ContextManager, InvalidOption, RooContextError, Store
from roocontext.cli.command_context import Invocation
from roocontext.store.engine.engines import engine_of
from support.defaults import live_objects, printed_defaults

SECRET = "hunter2-of-the-environment"


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)


@pytest.mark.parametrize("manager", [ContextManager, AsyncContextManager])
def test_help_of_a_manager_prints_no_variable(manager):
    assert SECRET not in pydoc.render_doc(manager)
    assert SECRET not in str(inspect.signature(manager))


def test_no_default_prints_a_variable_or_an_object_of_this_process():
    found = list(printed_defaults())
    assert not [name for name, text in found if SECRET in text]
    assert live_objects(found) == []


def test_settings_of_a_manager_print_no_variable():
    assert SECRET not in repr(ContextManager("claude-sonnet-4").settings)
    assert SECRET not in repr(ContextManager("claude-sonnet-4", environ={"TOKEN": SECRET}).settings)


URLS = [
    f"postgresql://agent:{SECRET}@127.0.0.1:1/agents",
    f"postgres://agent:{SECRET}@127.0.0.1:1/agents?nonsense=1",
    f"postgresql://agent@127.0.0.1:1/agents?password={SECRET}",
    f"postgresql://agent@127.0.0.1:1/agents?sslpassword={SECRET}&sslmode=nonsense",
    f"postgresql://agent:{SECRET}@127.0.0.1:port/agents",
    f"postgresql://agent:p@{SECRET}@127.0.0.1/agents",
    f"mysql://agent:{SECRET}@127.0.0.1/agents",
    f"sqlite://agent:{SECRET}@host/agents.db",
    f"host=127.0.0.1 password={SECRET}",
]


@pytest.mark.parametrize("url", URLS, ids=range(len(URLS)))
def test_error_about_a_database_prints_no_password(url):
    with pytest.raises(RooContextError) as caught:
        Store.open(url, upgrade=False)
    error = caught.value
    said = [str(error), repr(error), repr(error.facts), repr(error.args)]
    assert not [text for text in said if SECRET in text]


def test_objects_with_a_url_print_no_password():
    assert SECRET not in repr(engine_of(URLS[0]))
    assert SECRET not in repr(Invocation(lambda: 0, db=URLS[0]))


def test_option_that_is_refused_does_not_print_a_variable():
    with pytest.raises(InvalidOption) as caught:
        ContextManager("claude-sonnet-4", policy="opencode", limits=3, environ={"TOKEN": SECRET})
    assert SECRET not in repr(caught.value)
