"""Deleting through an adapter hides, and destroys nothing."""

import threading

from roocontext import NewNote
from roocontext.adapters.adapter_notes import epoch, hide


def test_hidden_epoch_leaves_the_view_and_stays_in_the_audit(lab):
    session = lab.store.create("s", metadata={"adapter": "test"})
    session.append("user", "before")
    assert epoch(session) == 0
    begun = hide(session, by="delete", metadata={"adapter": "test", "deleted": "yes"})
    assert epoch(session) == begun
    assert session.view().messages == ()
    assert session.info().metadata["deleted"] == "yes"
    session.append("user", "after")
    assert [one.content for one in session.view().messages] == ["after"]
    assert [one.content for one in session.audit() if one.role] == ["before", "after"]
    assert session.verify().ok


def test_hiding_an_empty_or_hidden_epoch_writes_nothing(lab):
    session = lab.store.create("s")
    first = hide(session, by="delete")
    assert hide(session, by="delete", also=[NewNote("more", {})]) > first
    assert session.newest_note("more") is not None


def test_concurrent_writes_are_hidden_or_follow(lab):
    session = lab.store.create("s")
    writing = threading.Thread(
        target=lambda: [session.append("user", str(number)) for number in range(50)]
    )
    writing.start()
    begun = hide(session, by="delete")
    writing.join()
    assert all(one.seq > begun for one in session.view().messages)
    assert session.stats().messages == 50
