"""A framework that is missing or too old gives one error, with the versions that work."""

from importlib.metadata import version

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


def test_no_default_of_an_adapter_is_an_object_of_this_process():
    found = list(printed_defaults())
    assert any(".adapters.langgraph" in name for name, _ in found)
    assert live_objects(found) == []
