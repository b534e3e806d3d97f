"""Stores that break one promise each, for the tests of `roocontext.testing`.

Each is the reference implementation with one defect that a real store had or could have.
"""

import json
import sys
from dataclasses import replace

from roocontext import DuplicateMessage
from roocontext.testing.protocol import Fork, History, Message, Receipt, Sent, View
from support.reference_store import Reference


class _Changed(Reference):
    """Appends another message than it was given."""

    def append(self, new):
        message = Message(new.message.role, self.changed(new.message.content))
        return super().append(replace(new, message=message))

    def changed(self, content):
        return json.loads(self.changed_text(json.dumps(content)))


class RoundsNumbers(_Changed):
    def changed(self, content):
        return json.loads(json.dumps(content), parse_int=lambda digits: int(float(digits)))


class StripsTexts(_Changed):
    def changed_text(self, text):
        return text.replace(r"\r\n", r"\n")


class DropsNul(_Changed):
    def changed_text(self, text):
        return text.replace(r"\u0000", "")


class ReplacesSurrogates(_Changed):
    def changed_text(self, text):
        return json.dumps(json.loads(json.loads(json.dumps(text)))).replace(r"\ud83e", "?")


class RefusesSurrogatesByHalf(Reference):
    """Stores what it refuses."""

    def append(self, new):
        receipt = super().append(new)
        if r"\ud83e" in json.dumps(new.message.content):
            raise UnicodeError
        return receipt


class DropsNulls(_Changed):
    def changed_text(self, text):
        return text.replace("null, ", "")


class SortsKeys(_Changed):
    def changed(self, content):
        return json.loads(json.dumps(content, sort_keys=True))


class CutsOff(_Changed):
    def changed(self, content):
        return [
            {**block, "input": {"value": "cut off"}} if len(json.dumps(block)) > 500_000 else block
            for block in content
        ]


class SkipsUnknownBlocks(_Changed):
    def changed(self, content):
        known = ("text", "tool_use", "tool_result")
        return [block for block in content if block["type"] in known]


class Deduplicates(Reference):
    def append(self, new):
        if new.message in self.view().messages:
            return Receipt(self._session.head_seq())
        return super().append(new)


class RewritesOnRewind(Reference):
    """Rewound messages cannot be read any more."""

    def history(self):
        return History(self.view().messages)


class ForgetsWhatIsCondensed(Reference):
    def history(self):
        hidden = {entry.seq for entry in self._session.audit() if entry.condense_parent}
        audit = [entry for entry in self._session.audit() if entry.kind == "message"]
        kept = [entry for entry in audit if entry.seq not in hidden]
        return History(tuple(Message(entry.role, entry.content) for entry in kept))


class DeletesForGood(Reference):
    def delete(self):
        self._store.purge(self._session.id)
        self._session = self._store.create(f"{self._session.id}-again")

    def open(self, session):
        gone = any(it.session_id == session for it in self._store.purged())
        return super().open(f"{session}-again" if gone else session)


class RewindsTooFar(Reference):
    def rewind(self, to):
        return super().rewind(max(to - 1, 0))


class ContinuesWhereItWas(Reference):
    """A message after a rewind brings back what the rewind took away."""

    def append(self, new):
        if self._session.stats().rewound_messages:
            self._session.undo(force=True)
        return super().append(new)


class CannotGoForward(Reference):
    def rewind(self, to):
        shown = self._session.view().messages
        if shown and to > shown[-1].seq:
            return Receipt(self._session.head_seq())
        return super().rewind(to)


class KeepsTheSummary(Reference):
    """A rewind leaves a summary that is newer than its target."""

    def rewind(self, to):
        summaries = [it for it in self._session.view().messages if it.kind == "summary"]
        return super().rewind(summaries[0].seq if summaries else to)


class ForksTheNewest(Reference):
    def fork(self, copy):
        super().fork(Fork(self._session.head_seq(), copy.session))


class LetsBothWin(Reference):
    def append(self, new):
        return super().append(replace(new, expected=None))


class AcknowledgesEarly(Reference):
    """Writes a message with the next one, as a buffer does."""

    def __init__(self, url):
        super().__init__(url)
        self._late = None

    def append(self, new):
        late, self._late = self._late, new
        return super().append(late) if late else Receipt(self._session.head_seq())

    def view(self):
        late, self._late = self._late, None
        if late:
            super().append(late)
        return super().view()


class SendsWhatIsStored(Reference):
    def sent(self):
        return Sent(self.view().messages, "anthropic")


class SplitsPairs(SendsWhatIsStored):
    """Hides a call and leaves its result."""

    def __init__(self, url):
        super().__init__(url)
        self._hidden = 0

    def condense(self, plan):
        self._hidden = plan.first
        return Receipt(self._session.head_seq())

    def view(self):
        whole = super().view()
        return View(whole.version, whole.messages[self._hidden :])


class RepeatsRetries(Reference):
    def append(self, new):
        return super().append(replace(new, retry_key=None, expected=None))


class RefusesRetries(Reference):
    """Compares the version before it looks for the key."""

    def append(self, new):
        if new.expected not in (None, self._session.head_seq()):
            raise ValueError
        return super().append(new)


class IgnoresReusedKeys(Reference):
    def append(self, new):
        try:
            return super().append(new)
        except DuplicateMessage:
            return Receipt(self._session.head_seq())


class OpensHereOnly(Reference):
    """Opens in the process of the tests only."""

    def __init__(self, url):
        if "pytest" not in sys.modules:
            raise OSError
        super().__init__(url)


class AppendsHereOnly(Reference):
    """Appends in the process of the tests only."""

    def append(self, new):
        if "pytest" not in sys.modules:
            raise OSError
        return super().append(new)
