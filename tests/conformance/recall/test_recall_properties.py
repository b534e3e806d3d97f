"""Whatever happens to a session: recall finds what is there, forgets what was redacted, and every
answer that quotes a redacted message is listed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext import Plan
from roocontext.log.entries import quotes_of
from support.examples import examples
from support.recalling import asks, read, recall_for, search

STEPS = st.lists(
    st.sampled_from(["say", "say", "say", "recall", "read", "hide", "rewind", "undo", "redact"]),
    min_size=4,
    max_size=14,
)


class Told:
    """A session whose messages each hold a word of their own."""

    def __init__(self, store):
        self.store = store
        self.chat = store.create()
        self.words = {}
        self.redacted = set()
        self.recall = recall_for(store, self.chat, budget=10_000)

    def word(self, number):
        """The word of the message that is chosen by a number, if there is any."""
        seqs = sorted(self.words)
        return self.words[seqs[number % len(seqs)]]

    def do(self, step, number):
        chat = self.chat
        if step == "say":
            word = f"word{len(self.words)}x"
            self.words[chat.append("user", f"It is {word} and {'much more ' * 20}").seq] = word
        elif not self.words:
            return
        elif step == "recall":
            self.recall.answer(asks(chat, "search_history", query=self.word(number)))
        elif step == "read":
            self.recall.answer(asks(chat, "read_history", first=1 + number % chat.head_seq()))
        elif step == "hide":
            shown = chat.view().messages
            first = [row.seq for row in shown if row.role == "user" and row.seq in self.words]
            if first:
                chat.commit(Plan.condense(chat.view(), first[:2], "S"))
        elif step == "rewind":
            chat.rewind(number % (chat.head_seq() + 1))
        elif step == "undo":
            if (
                chat.internals.outline().controls
                and chat.internals.outline().controls[-1].kind == "rewind"
            ):
                chat.undo(force=True)
        else:
            seq = sorted(self.words)[number % len(self.words)]
            chat.redact(seq)
            self.redacted.add(seq)


@settings(max_examples=examples(8))
@given(steps=STEPS, numbers=st.lists(st.integers(0, 50), min_size=14, max_size=14))
def test_recall_after_any_history_keeps_its_limits(shared, steps, numbers):
    told = Told(shared.store)
    for step, number in zip(steps, numbers, strict=False):
        told.do(step, number)
    rows = {row.seq: row for row in told.chat.audit()}
    for seq, word in told.words.items():
        found = {at for one in search(told.recall, word).quotes for at in range(one.lo, one.hi + 1)}
        standing = rows[seq].rewound_by is None and seq not in told.redacted
        assert found == ({seq} if standing else set())
        around = read(told.recall, seq, last=seq, rewound=True)
        assert (word in around.text) == (seq not in told.redacted)
        holding = {
            row.seq
            for row in rows.values()
            if quotes_of(row.entry.extra) and f"> It is {word} " in str(row.content)
        }
        assert holding == {at for _, at in told.chat.redact(seq, dry_run=True).quotes}
