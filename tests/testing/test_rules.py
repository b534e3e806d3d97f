"""The parts of the suite for others that no broken store shows: its rules, and its test class."""

import pytest

from roocontext.testing import Message, Sent, StoreContract
from roocontext.testing.protocol import answers, says, tool_call
from roocontext.testing.sending import faults
from support import broken_stores as broken
from support.empty_files import empty_file

PAIR = (says("go on"), tool_call("a"), answers("a"))


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        (PAIR, []),
        ((*PAIR, *PAIR), []),
        ((says("go on"), tool_call("a"), tool_call("b"), answers("a"), answers("b")), []),
        (PAIR[:2], ["the last call has no result"]),
        (PAIR[1:], ["the first message is not the user's"]),
        ((says("x"), answers("a")), ["message 2 answers a call that is not before it"]),
        ((*PAIR[:2], says("x")), ["message 3 comes before the result of a call"]),
        ((*PAIR, answers("a")), ["message 4 answers a call that is not before it"]),
        ((says(" "),), ["message 1 has no text in it"]),
        ((Message("user", []),), ["message 1 has no text in it"]),
    ],
)
def test_provider_rules_are_found(messages, found):
    assert faults(Sent(messages, "anthropic")) == found
    every_provider = [fault for fault in found if "call" in fault]
    assert faults(Sent(messages, "any")) == every_provider


@pytest.mark.parametrize(
    ("store", "accepted", "passes"),
    [
        (broken.Reference, set(), True),
        (broken.SortsKeys, set(), False),
        (broken.SortsKeys, {"order of keys"}, True),
        (broken.Reference, {"order of keys"}, False),
    ],
)
def test_test_class_fails_for_what_is_lost_and_for_what_is_wrongly_listed(
    store, accepted, passes, tmp_path
):
    class Contract(StoreContract):
        factory = store
        lost = frozenset(accepted)

        def place(self):
            return empty_file(tmp_path / "store.db")

    if passes:
        Contract().test_order_of_keys()
    else:
        with pytest.raises(AssertionError, match="order of keys"):
            Contract().test_order_of_keys()


def test_test_class_raises_the_error_of_the_store(tmp_path):
    class Fails(broken.Reference):
        def view(self):
            raise ZeroDivisionError

    class Contract(StoreContract):
        factory = Fails

        def place(self):
            return empty_file(tmp_path / "store.db")

    with pytest.raises(ZeroDivisionError):
        Contract().test_rewinds_exactly()
