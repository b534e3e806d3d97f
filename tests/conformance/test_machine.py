"""Random sequences of every operation, held against the fold after each step.

The store is asked for its view, its audit and its counts; the oracle works the same out from the
fold. At the end of an example every past seq is compared, and what goes to a provider is checked.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from roocontext import Counts, NewMessage, Pin, Plan, Rewind, SetTitle
from roocontext.errors import (
    DuplicateMessage,
    MessageNotFound,
    NothingToUndo,
    SessionExists,
    SessionNotFound,
    UncoverRefused,
    UndoRefused,
)
from roocontext.log import fold
from roocontext.log.counting import ReportedUsage, Size
from roocontext.log.entries import Kept, Kind
from roocontext.log.fold import Tags
from roocontext.log.moments import EPOCH
from roocontext.log.pairs import bound, pairs
from roocontext.log.plan import Action
from support.examples import TORTURE, examples
from support.oracle import Model
from support.provider_rules.anthropic import violations

pytestmark = pytest.mark.every_leg

STEPS = 50
EXAMPLES = {"file-sync": examples(15, long=25), "postgres-sync": examples(8, long=20)}
"""Of the other legs there are fewer: what they add is no statement and no logic of their own."""
FEWER = examples(4, long=6)
MOST_RELATIVES = 3

picks = st.integers(0, 1_000)
few = st.integers(0, 4)
flags = st.booleans()
seldom = st.sampled_from([False, False, False, True])
own_times = st.one_of(st.none(), st.integers(-9, 9))
actions = st.sampled_from([Action.CONDENSE, Action.TRUNCATE])


class SessionMachine(RuleBasedStateMachine):
    """One session with its forks and sub-agents; the store is shared by all examples."""

    store: Any
    family: list[tuple[Any, Model]] = []
    starts: list[int] = []
    """From where on a fork is its own; what is before was compared in its parent."""

    @initialize(roles=st.lists(st.sampled_from(["user", "assistant"]), min_size=2, max_size=6))
    def begin(self, roles):
        self.said = 0
        self._move(self.store.create(), Model())
        self.family, self.starts = [(self.chat, self.model)], [0]
        self.compared = (0, 0)
        self.noted: list[tuple[str, Any, str, Any]] = []
        self.append([(role, self._text(3)) for role in roles])

    # Appending

    @rule(role=st.sampled_from(["user", "assistant"]), size=picks, about=seldom, ts=own_times)
    def say(self, role, size, about, ts):
        """Sometimes with data of the agent's own, which no later operation may look at."""
        role_and_text = (role, self._text(size % 40))
        facts: dict[str, Any] = {}
        if about:
            seq = 1 + size % self.model.last_seq
            facts = {"extra": {"n": size}, "asked_at": seq, "answers": (seq, size % 3)}
            facts |= {"model": f"m{size % 2}", "usage": {"input_tokens": size}}
        receipt = self.chat.append(*role_and_text, ts=ts, **facts)
        assert receipt.seq == receipt.head_seq == self.model.add(Kind.MESSAGE, None, role_and_text)
        if ts is not None:
            self.model.ts[receipt.seq] = ts
        if about:
            self.model.asked[receipt.seq], self.model.answers[receipt.seq] = seq, (seq, size % 3)
            self.model.extras[receipt.seq] = facts["extra"]
            self.model.used[receipt.seq] = (facts["model"], facts["usage"])

    @rule(ids=st.lists(few, min_size=1, max_size=3), thinking=flags, text=flags)
    def call_tools(self, ids, thinking, text):
        self.append([("assistant", self._calls(ids, thinking=thinking, text=text))])

    @rule(extra=flags, apart=flags, size=picks, skip=seldom)
    def answer_tools(self, extra, apart, size, skip):
        waiting = self._waiting()[1 if skip else 0 :]
        answers = [self._result(tool_id, size % 300) for tool_id in waiting]
        if extra or not answers:
            answers.append({"type": "text", "text": self._text(2)})
        messages = [[answer] for answer in answers] if apart else [answers]
        self.append([("user", content) for content in messages])

    @rule(pick=picks, waiting=st.sampled_from([True, True, False]), failed=flags, about=flags)
    def answer(self, pick, waiting, failed, about):
        """A call that waits, or any live one; again, it is the same answer."""
        calls = self.model.waits_for()[1] if waiting else self.model.calls()
        if not calls:
            return
        call = calls[pick % len(calls)]
        before, text = self.model.answer_to(call), self._text(2)
        begun = self.chat.begin(call)
        assert begun.new is (call not in self.model.begun)
        if begun.new:
            self.model.begun[call] = self.model.add(Kind.NOTE)
            assert begun.seq == self.model.begun[call]
        extra = {"commit": text} if about else None
        receipt = self.chat.answer(call, text, is_error=failed, extra=extra)
        if before is not None:
            assert (receipt.seq, receipt.new) == (before, False)
            return
        tool_id = self._call(call)["id"]
        result = {"type": "tool_result", "tool_use_id": tool_id, "content": text}
        content = [{**result, "is_error": True} if failed else result]
        seq = self.model.add(Kind.MESSAGE, None, ("user", content))
        self.model.answers[seq] = call
        if about:
            self.model.extras[seq] = extra
        assert (receipt.seq, receipt.new) == (seq, True)
        assert self.chat.answer(call, "another").seq == seq

    @rule(number=few, system=few, asks=flags)
    def record(self, number, system, asks):
        """A reply that may be recorded already, unless a request that had read it came before."""
        request = self._request(system) if asks else None
        said = [{"type": "text", "text": f"Reply {number}."}]
        reply = {"type": "message", "id": f"msg_{number}", "content": said, "stop_reason": "end"}
        receipt = self.chat.record(reply, request, extra={"n": system})
        live = self.model.live() if request is None else set()
        known = [seq for seq, one in self.model.replies.items() if one == number and seq in live]
        if known:
            assert (receipt.seq, receipt.new) == (known[-1], False)
            return
        seq = self.model.add(Kind.MESSAGE, None, ("assistant", said))
        self.model.replies[seq] = number
        kept = {"id": f"msg_{number}", "stop_reason": "end"}
        self.model.extras[seq] = {"n": system, "roocontext": kept}
        if request is not None:
            self.model.asked[seq] = request.seq
            assert self.chat.record(reply, request).seq == seq
            with pytest.raises(DuplicateMessage):
                self.chat.record({**reply, "content": said[:0]}, request)
        assert (receipt.seq, receipt.new) == (seq, True)

    @rule(system=few)
    def ask(self, system):
        """A request that is answered later, whatever happens until then."""
        self.asked = self._request(system) or self.asked

    def _request(self, system: int) -> Any:
        """A request, if it is the model's turn; its frame is noted if it is new."""
        if self.model.waits_for()[0] != "model":
            return None
        newest = self.chat.frame()
        request = self.chat.request(system=f"Prompt {system}.", tools=[])
        if newest is None or newest.system != f"Prompt {system}.":
            self.model.add(Kind.NOTE)
        assert request.seq == self.model.last_seq
        return request

    @rule(asks=flags, only=seldom, failed=seldom)
    def compact(self, asks, only, failed):
        """A reply in which the provider compacted what its request had read."""
        request = self.asked if asks else None
        words = self._text(2)
        content = [{"type": "compaction", "content": None if failed else words}]
        content += [] if only else [{"type": "text", "text": words}]
        name, stop = f"compact_{words.split()[0]}", "compaction" if only else "end_turn"
        reply = {"type": "message", "id": name, "content": content, "stop_reason": stop}
        old = set(self.model.effective())
        receipt = self.chat.record(reply, request)
        seq = self.model.add(Kind.MESSAGE, None, ("assistant", content))
        self.model.extras[seq] = {"roocontext": {"id": name, "stop_reason": stop}}
        if request is not None:
            self.model.asked[seq] = request.seq
        read = seq - 1 if request is None else request.seq
        covering = None if failed else self.model.cover(seq, read)
        assert (receipt.seq, receipt.covering) == (seq, covering)
        assert receipt.compacted is not failed
        assert receipt.head_seq == self.model.head_seq
        gone = old - set(self.model.effective())
        assert receipt.hidden == len(gone)
        if covering is not None:
            assert set(receipt.unread) == {it for it in old - gone if it > read}
        again = self.chat.record(reply, request)
        assert again == msgspec.structs.replace(receipt, new=False)

    @rule(ids=st.lists(few, min_size=1, max_size=2), size=picks, orphan=seldom)
    def work(self, ids, size, orphan):
        calls = self._calls(ids, thinking=False, text=True)
        results = [self._result(f"t{number}", size % 300) for number in ids]
        if orphan:
            results.append(self._result("nobody", 5))
        done = ("assistant", self._text(4))
        self.append([("assistant", calls), ("user", results), done])

    # Plans

    @rule(
        action=actions,
        start=picks,
        length=picks,
        skip=st.sets(few, max_size=2),
        companions=st.integers(0, 2),
        compat=seldom,
        at_end=seldom,
        snug=st.sampled_from([True, True, True, False]),
        later=seldom,
    )
    def hide(self, action, start, length, skip, companions, compat, at_end, snug, later):
        """Part of the view, with holes; `snug` leaves pins and split pairs out."""
        seen = self.model.effective()
        if not seen:
            return
        first = start % len(seen)
        chosen = seen[first : first + 1 + length % (len(seen) - first)]
        chosen = [seq for index, seq in enumerate(chosen) if index not in skip] or chosen
        chosen = self._snug(chosen) if snug else chosen
        if not chosen:
            return
        make = Plan.condense if action is Action.CONDENSE else Plan.truncate
        rows = [NewMessage(("assistant", "user")[index], "ok") for index in range(companions)]
        view = self.chat.view()
        plan = make(view, chosen, "S", companions=rows, compat=compat, at_end=at_end)
        self._commit(plan, later=later)

    @rule(
        action=actions,
        ends=st.lists(picks, min_size=2, max_size=4),
        compat=flags,
        smaller=st.sampled_from([True, True, False]),
        stale=seldom,
    )
    def hide_ranges(self, action, ends, compat, smaller, stale):
        """Ranges of seq, whatever is in them; the ends are often messages."""
        known = sorted(self.model.said) if smaller else range(1, self.model.last_seq + 1)
        points = sorted({known[end % len(known)] for end in ends})
        hides = tuple(zip(points[::2], points[1::2], strict=False)) or ((points[0], points[0]),)
        plan = Plan(
            head_seq=self.model.head_seq - (2 if stale else 0),
            action=action,
            hides=hides,
            rows=(NewMessage("user", "R"),),
            counts=Counts("given", Size(10), Size(9 if smaller else 10)),
            compat=compat,
        )
        if hides[-1][1] <= plan.head_seq:
            self._commit(plan)

    @rule(
        chosen=st.lists(picks, min_size=1, max_size=4),
        keep=st.none() | st.tuples(st.integers(0, 60), st.integers(0, 60)),
        compat=seldom,
        later=seldom,
        wild=seldom,
    )
    def clear(self, chosen, keep, compat, later, wild):
        outputs = self._outputs(everything=compat or wild)
        if not outputs:
            return
        blocks = {outputs[pick % len(outputs)] for pick in chosen}
        if compat:
            counts = Counts("given", Size(10), Size(11))
            plan = Plan(
                head_seq=self.model.head_seq,
                action=Action.CLEAR,
                clears=tuple(blocks),
                keeps=tuple(Kept(*block, *keep) for block in blocks) if keep else (),
                placeholder="c",
                counts=counts,
                compat=True,
            )
        else:
            plan = Plan.clear(self.chat.view(), blocks, "[cleared]", keep=keep)
        self._commit(plan, later=later)

    @precondition(lambda self: self.kept is not None)
    @rule()
    def commit_kept(self):
        """A plan that was made some steps ago."""
        plan, self.kept = self.kept, None
        self._commit(plan)

    # Notes

    @rule(pick=picks, pinned=st.sampled_from([True, False, False]))
    def pin(self, pick, pinned):
        known = sorted(self.model.said)
        target = known[pick % len(known)]
        (self.chat.pin if pinned else self.chat.unpin)(target)
        self.model.pin(target, pinned=pinned)
        assert self.chat.pins() == self.model.pinned

    @rule(title=flags)
    def tell(self, title):
        text = self._text(1)
        if title:
            assert self.chat.set_title(text).seq == self.model.set_title(text)
        else:
            assert self.chat.note("remark", {"text": text}).seq == self.model.add(Kind.NOTE)

    @rule(owner=few)
    def describe(self, owner):
        metadata = {"machine": self.family[0][0].id, "owner": str(owner), "n": self._text(0)}
        assert self.chat.set_metadata(metadata).seq == self.model.set_metadata(metadata)

    @rule(pick=picks, about=flags)
    def note_with_a_client_id(self, pick, about):
        """Repeated at once and at any time later, it is one entry."""
        known = sorted(self.model.said)
        target = known[pick % len(known)] if about else None
        asked = ("remark", {"text": self._text(1)}, target)
        client_id = f"note-{self.said}"
        first = self.chat.note(asked[0], asked[1], target=target, client_id=client_id)
        assert (first.seq, first.new) == (self.model.add(Kind.NOTE), True)
        self.noted.append((self.chat.id, asked, client_id, first))

    @precondition(lambda self: self.noted)
    @rule(pick=picks, other=seldom)
    def repeat_a_note(self, pick, other):
        mine = [noted for noted in self.noted if noted[0] == self.chat.id]
        if not mine:
            return
        _, (kind, content, target), client_id, first = mine[pick % len(mine)]
        if other:
            with pytest.raises(DuplicateMessage):
                self.chat.append("user", "another", client_id=client_id)
            return
        again = self.chat.note(kind, content, target=target, client_id=client_id)
        assert (again.seq, again.hash, again.head_seq) == (first.seq, first.hash, first.head_seq)
        assert not again.new

    # Batches

    @rule(
        before=st.integers(0, 2),
        hidden=picks,
        pinned=flags,
        back=picks,
        after=st.integers(0, 2),
        broken=seldom,
    )
    def batch(self, before, hidden, pinned, back, after, broken):
        """Items of every sort at once, and again; a plan may hide what the batch brings."""
        start, items = self.model.head_seq, []
        shadow = self.model.copy()
        for _ in range(before):
            items.append(self._batched_message(shadow))
        title = self._text(1)
        items.append(SetTitle(title, client_id=f"title-{self.said}"))
        shadow.set_title(title)
        items += self._batched_plan(shadow, hidden)
        if pinned:
            target = sorted(shadow.said)[hidden % len(shadow.said)]
            items.append(Pin(target, client_id=f"pin-{self._text(0)}"))
            shadow.pin_anyway(target, pinned=True)
        if back % 3 == 0:
            to = shadow.last_seq - back % min(shadow.last_seq + 1, 8)
            items.append(Rewind(to, head_seq=shadow.head_seq, client_id=f"back-{self._text(0)}"))
            seq = shadow.rewind(to)
            if back % 2:
                items[-1] = replace(items[-1], ts=-back)
                shadow.ts[seq] = -back
        for _ in range(after):
            items.append(self._batched_message(shadow))
        if broken:
            head = self.chat.head()
            with pytest.raises(MessageNotFound):
                self.chat.write_batch([*items, Pin(shadow.last_seq + 1)], expected_seq=start)
            assert self.chat.head() == head
            return
        first = self.chat.write_batch(items, expected_seq=start)
        written = [seq for receipt in first for seq in receipt.seqs]
        assert written == list(range(self.model.last_seq + 1, shadow.last_seq + 1))
        assert first[-1].head_seq == shadow.head_seq
        vars(self.model).update(vars(shadow))
        again = self.chat.write_batch(items, expected_seq=start)
        assert [(r.seqs, r.hash, r.head_seq) for r in again] == [
            (r.seqs, r.hash, r.head_seq) for r in first
        ]
        assert not any(receipt.new for receipt in again)

    def _batched_message(self, shadow: Model) -> NewMessage:
        role_and_text = ("user", self._text(3))
        shadow.add(Kind.MESSAGE, None, role_and_text)
        return NewMessage(*role_and_text, client_id=f"message-{self.said}")

    def _batched_plan(self, shadow: Model, pick: int) -> list[Plan]:
        """A plan that hides one visible row, perhaps one that the batch brings, if it may."""
        seen = shadow.effective()
        if not seen:
            return []
        seq = seen[-1 - pick % min(len(seen), 4)]
        plan = Plan(
            head_seq=shadow.head_seq,
            action=Action.CONDENSE,
            hides=((seq, seq),),
            rows=(NewMessage("user", self._text(1)), NewMessage("assistant", "ok")),
            counts=Counts("given", Size(10), Size(9)),
            client_id=f"plan-{self.said}",
            compaction_id=f"condense-{self.said}",
        )
        if shadow.judge(plan) is not None:
            return []
        shadow.commit(plan)
        return [plan]

    # Rewinding

    @rule(pick=picks, near=flags, keep=flags)
    def rewind(self, pick, near, keep):
        last = self.model.last_seq
        target = last - pick % min(last + 1, 8) if near else pick % (last + 1)
        to = target if keep else target - 1
        if to < 0:
            with pytest.raises(MessageNotFound):
                self.chat.rewind(target, keep_target=keep)
            return
        then = [message.seq for message in self.chat.view(as_of=to).messages]
        done = self.chat.rewind(target, keep_target=keep)
        assert done.changed is (self.model.live(to) != self.model.live())
        self._rewound(done, to)
        assert [message.seq for message in self.chat.view().messages] == then

    @rule(force=flags)
    def undo(self, force):
        rewinds = [row.seq for row in self.model.rows if row.kind is Kind.REWIND]
        if not rewinds:
            with pytest.raises(NothingToUndo):
                self.chat.undo(force=force)
            return
        newest = rewinds[-1]
        since = [row for row in self.model.rows[newest:] if row.kind is not Kind.NOTE]
        if since and not force:
            with pytest.raises(UndoRefused) as refused:
                self.chat.undo()
            assert (refused.value.rewind, refused.value.since) == (newest, len(since))
            return
        done = self.chat.undo(of=newest, force=force)
        assert (done.undone, done.changed) == (newest, True)
        self._rewound(done, newest - 1)
        if newest in self.before:
            assert self._cleared_view() == self.before[newest]

    # Uncovering

    @rule(pick=picks, wild=seldom)
    def uncover(self, pick, wild):
        rows = [row.seq for row in self.model.rows if row.control or wild]
        if not rows:
            return
        target, head = rows[pick % len(rows)], self.chat.head()
        is_companion = self.model.rows[target - 1].kind is Kind.COMPANION
        before = None if is_companion else self.model.uncovered().get(target)
        if before is None and not self.model.may_uncover(target):
            with pytest.raises(UncoverRefused) as refused:
                self.chat.uncover(target)
            assert refused.value.seq == target
            assert self.chat.head() == head
            return
        old = set(self.model.effective())
        blocks = self.model.cleared()
        done = self.chat.uncover(target)
        if before is not None:
            assert (done.seq, done.changed, self.chat.head()) == (before, False, head)
            return
        rows = [target, *self.model.companions(target)]
        assert (done.target, sorted(done.rows)) == (target, sorted(rows))
        assert done.seq == done.head_seq == self.model.uncover(target)
        new = set(self.model.effective())
        assert (done.left, done.returned) == (len(old - new), len(new - old))
        assert done.restored == len(blocks.items() - self.model.cleared().items())
        again = self.chat.uncover(target)
        assert again == replace(done, changed=False)
        log = self.model.never_written()
        assert [m.seq for m in self.chat.view().messages] == fold.effective(log)

    # Sub-agents, forks and redactions

    @precondition(lambda self: len(self.family) <= MOST_RELATIVES)
    @rule(move=flags)
    def start(self, move):
        """A session of a sub-agent; opened again it is the same one, and its parent stays."""
        name, parent = f"{self.chat.id}-{self._text(0).strip()}", self.chat.id
        with pytest.raises(SessionNotFound):
            self.store.open_session(name, parent=name)
        made = self.store.open_session(name, parent=parent, metadata=None)
        self.family.append((made, Model(parent)))
        self.starts.append(0)
        for other in {chat.id for chat, _ in self.family} - {parent}:
            with pytest.raises(SessionExists):
                self.store.open_session(name, parent=other)
        if move:
            self._move(self.store.open_session(name), self.family[-1][1])
            self.append([("user", self._text(3))])

    @precondition(lambda self: len(self.family) <= MOST_RELATIVES)
    @rule(pick=picks, near=flags, move=flags)
    def fork(self, pick, near, move):
        last = self.model.last_seq
        at = last - pick % min(last + 1, 8) if near else pick % (last + 1)
        made = (self.chat.fork(at), self.model.fork(at))
        self.family.append(made)
        self.starts.append(at)
        if move and made[1].said:
            self._move(*made)

    def _move(self, chat: Any, model: Model) -> None:
        """Let the next steps happen in another session."""
        self.chat, self.model = chat, model
        self.kept: Plan | None = None
        self.asked: Any = None
        self.before: dict[int, list[Any]] = {}

    @rule(pick=picks)
    def redact(self, pick):
        known = sorted(self.model.said)
        seq = known[pick % len(known)]
        key = self.model.keys[seq - 1]
        copies = [
            (chat, model)
            for chat, model in self.family
            if model.last_seq >= seq and model.keys[seq - 1] is key
        ]
        done = self.chat.redact(seq)
        assert done.changed is (seq not in self.model.redacted)
        assert set(done.copies) == {(chat.id, seq) for chat, _ in copies}
        assert set(done.summaries) == {
            (chat.id, row.seq) for chat, model in copies for row in _summaries_of(model, seq)
        }
        if done.changed:
            for _, model in copies:
                model.redact(seq)

    # What must hold

    @invariant()
    def it_is_what_the_oracle_says(self):
        """After each step that wrote something: of the others it is compared that they did not."""
        written = (id(self.model), self.model.last_seq)
        if written != self.compared:
            self.the_view_is_the_fold()
            self.the_audit_has_the_tags()
            self.the_counts_add_up()
            self.the_turn_is_the_models()
            self.compared = written
        else:
            assert self.chat.head().seq == self.model.last_seq

    def the_view_is_the_fold(self) -> None:
        view = self.chat.view()
        assert [(m.seq, m.role, m.content) for m in view.messages] == self.model.view()
        assert (view.seq, view.head_seq) == (self.model.last_seq, self.model.head_seq)

    def the_audit_has_the_tags(self) -> None:
        tags, cleared, none = self.model.tags(), self.model.cleared(), Tags()
        entries = list(self.chat.audit())
        assert [entry.seq for entry in entries] == list(range(1, self.model.last_seq + 1))
        for entry, row in zip(entries, self.model.rows, strict=True):
            told = Tags(
                entry.condense_parent,
                entry.truncation_parent,
                entry.rewound_by,
                entry.uncovered_by,
            )
            expected = tags.get(entry.seq, none)
            assert (entry.kind, told) == (row.kind, expected)
            is_message = entry.seq in self.model.said
            assert entry.visible is (is_message and expected == none)
            assert (entry.hider and entry.hider.seq) == entry.hidden_by
            assert entry.redacted is (entry.seq in self.model.redacted)
            kept = (entry.entry.extra, entry.entry.asked_at, entry.entry.answers)
            facts = (self.model.extras, self.model.asked, self.model.answers)
            assert kept == tuple(one.get(entry.seq) for one in facts)
            if is_message:
                assert (entry.role, entry.content) == self.model.said[entry.seq]
            if row.control and row.control.position is not None:
                assert entry.entry.details["position"] == row.control.position
        told_cleared = {(e.seq, block): by for e in entries for block, by in e.cleared}
        assert told_cleared == cleared

    def the_counts_add_up(self) -> None:
        stats = self.chat.stats()
        counted = (stats.messages, stats.bytes, stats.visible_messages, stats.visible_bytes)
        hidden = (stats.hidden_messages, stats.hidden_bytes)
        rewound = (stats.rewound_messages, stats.rewound_bytes)
        assert (*counted, *hidden, *rewound) == self.model.stats()
        assert stats.entries == self.model.last_seq
        info = self.chat.info()
        assert (info.messages, info.bytes) == (stats.messages, stats.bytes)
        assert (info.title, info.metadata, info.parent) == (*self.model.shown(), self.model.parent)

    def the_turn_is_the_models(self) -> None:
        pending = self.chat.pending()
        assert (self.chat.waits_for(), [call.place for call in pending]) == self.model.waits_for()
        assert all(call.begun is (call.place in self.model.begun) for call in pending)
        assert [call.id for call in pending] == [self._call(one.place)["id"] for one in pending]

    def teardown(self) -> None:
        """Every past seq, the proof of the log, and the outgoing form."""
        for start, (chat, model) in zip(self.starts, self.family, strict=True):
            for seq in range(start, model.last_seq + 1):
                view = chat.view(as_of=seq)
                assert [(m.seq, m.role, m.content) for m in view.messages] == model.view(seq)
            self.any_moment_is_the_models(chat, model)
            assert chat.verify().ok
            assert chat.rebuild() == 0
            assert violations(chat.messages()) == []
        self.the_family_is_the_models()

    def any_moment_is_the_models(self, chat: Any, model: Model) -> None:
        """Times before 1970 and those that go back too."""
        recorded = [entry.entry.recorded_at for entry in chat.audit()]
        info = chat.info()
        assert info.happened_at == model.latest(recorded, info.created_at)
        assert info.listed_at == min(info.happened_at, info.updated_at)
        times = {model.happened(seq, recorded) for seq in range(1, model.last_seq + 1)}
        for when in sorted({-2_000, *times})[:: len(times) // 6 + 1]:
            moment = EPOCH + timedelta(milliseconds=when)
            assert chat.view(as_of=moment).seq == model.point(when, recorded)
            assert chat.view(as_of=moment, recorded=True).seq == bisect_right(recorded, when)
            try:
                place = chat.rewind(moment, dry_run=True).to
            except MessageNotFound:
                place = None
            assert place == model.place(when, recorded)

    def the_family_is_the_models(self) -> None:
        """Children, lists and usage, of each session."""
        paid = {chat.id: [(chat.id, *row) for row in model.usage()] for chat, model in self.family}
        below = {chat.id: [chat.id] for chat, _ in self.family}
        for chat, model in reversed(self.family):  # a child is always younger
            if model.parent is not None:
                below[model.parent] += below[chat.id]
        for chat, _ in self.family:
            children = [other.id for other, model in self.family if model.parent == chat.id]
            assert [info.session_id for info in chat.children()] == children
            listed = self.store.sessions(parent=chat.id)
            assert {info.session_id for info in listed} == set(children)
            told = sorted(_paid(chat.usage(family=True)))
            assert told == sorted(row for member in below[chat.id] for row in paid[member])
            assert _paid(chat.usage()) == paid[chat.id]
        for owner in range(5):
            where = {"machine": self.family[0][0].id, "owner": str(owner)}
            found = {info.session_id for info in self.store.sessions(where=where)}
            described = [(chat.id, model.shown()[1] or {}) for chat, model in self.family]
            owned = [name for name, metadata in described if metadata.get("owner") == str(owner)]
            assert found == set(owned)

    # How it is done

    def append(self, messages: list[tuple[str, Any]]) -> None:
        """Append to the session and to the model."""
        news = [NewMessage(role, content) for role, content in messages]
        receipts = self.chat.append_many(news, expected_seq=self.model.head_seq)
        added = [self.model.add(Kind.MESSAGE, None, message) for message in messages]
        assert [receipt.seq for receipt in receipts] == added

    def _commit(self, plan: Plan, *, later: bool = False) -> None:
        if later:
            self.kept = plan
            return
        refused = self.model.judge(plan)
        if refused is not None:
            head = self.chat.head()
            for dry_run in (True, False):
                with pytest.raises(refused) as caught:
                    self.chat.commit(plan, dry_run=dry_run)
                assert type(caught.value) is refused
            assert self.chat.head() == head
            return
        hidden = self.model.hidden_by(plan) & set(self.model.effective())
        dry = self.chat.commit(plan, dry_run=True)
        done = self.chat.commit(plan)
        written = self.model.commit(plan)
        assert (done.seq, done.head_seq) == (written[0], written[-1])
        assert (done.hidden, done.cleared) == (len(hidden), len(plan.clears))
        assert (dry.seq, dry.head_seq, dry.rows) == (done.seq, done.head_seq, done.rows)
        assert (dry.hidden, dry.cleared) == (done.hidden, done.cleared)

    def _rewound(self, done: Any, to: int) -> None:
        old, new = set(self.model.effective()), set(self.model.effective(to))
        assert (done.to, done.left, done.returned) == (to, len(old - new), len(new - old))
        if not done.changed:
            assert (done.seq, done.head_seq) == (None, self.model.head_seq)
            return
        view = self._cleared_view()
        assert done.seq == done.head_seq == self.model.rewind(to)
        self.before[done.seq] = view

    def _cleared_view(self) -> list[tuple[int, tuple[int, ...]]]:
        """The view without its contents, which a redaction may change; now and as of the model."""
        blocks: dict[int, list[int]] = {}
        for seq, block in sorted(self.model.cleared()):
            blocks.setdefault(seq, []).append(block)
        return [(seq, tuple(blocks.get(seq, ()))) for seq in self.model.effective()]

    def _text(self, size: int) -> str:
        self.said += 1
        return f"{self.said} " + "word " * size

    def _calls(self, ids: list[int], *, thinking: bool, text: bool) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if thinking:
            blocks.append({"type": "thinking", "thinking": self._text(2), "signature": "sig"})
        if text:
            blocks.append({"type": "text", "text": self._text(2)})
        for number in ids:
            call = {"type": "tool_use", "id": f"t{number}", "name": "run"}
            blocks.append({**call, "input": {"command": self._text(1)}})
        return blocks

    def _call(self, call: tuple[int, int]) -> dict[str, Any]:
        _, blocks = self.model.said[call[0]]
        return [block for block in blocks if block["type"] == "tool_use"][call[1]]

    def _result(self, tool_id: str, size: int) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": tool_id, "content": self._text(size)}

    def _waiting(self) -> list[str]:
        seqs, readings = self.model.readings()
        answered = {pair.call for pair in pairs(readings, self.model.links(seqs))}
        return [
            block["id"]
            for index, (_, blocks) in enumerate(readings)
            for at, block in enumerate(blocks)
            if block["type"] == "tool_use" and (index, at) not in answered
        ][-3:]

    def _snug(self, chosen: list[int]) -> list[int]:
        seqs, readings = self.model.readings()
        away = set(chosen) - self.model.bound_by_pins()
        groups = [
            {seqs[index]} | {seqs[other] for other in others}
            for index, others in bound(pairs(readings, self.model.links(seqs))).items()
        ]
        for group in groups:
            if not group <= away:
                away -= group
        return [seq for seq in chosen if seq in away]

    def _outputs(self, *, everything: bool) -> list[tuple[int, int]]:
        seqs = sorted(self.model.said) if everything else self.model.effective()
        return [
            (seq, index)
            for seq in seqs
            if isinstance(self.model.said[seq][1], list)
            for index, block in enumerate(self.model.said[seq][1])
            if block["type"] == "tool_result" or everything
        ]


def _paid(rows: Sequence[ReportedUsage]) -> list[tuple[Any, ...]]:
    """The usage of a session according to the model."""
    return [(row.session_id, row.seq, (row.model, row.usage), row.is_summary) for row in rows]


def _summaries_of(model: Model, seq: int) -> list[Any]:
    """The summaries and coverings that hide a row, or one of these that quotes it."""
    quoting, found = {seq}, []
    for row in model.rows:
        if row.kind not in (Kind.SUMMARY, Kind.COVERING):
            continue
        standing = quoting & fold.standing(model.rows[: row.seq - 1])
        if any(lo <= one <= hi for one in standing for lo, hi in row.control.hides):
            quoting.add(row.control.source[0] if row.control.source else row.seq)
            found.append(row)
    return found


def test_random_operations_agree_with_the_oracle(shared):
    legs = ["file-sync", "memory-sync", "postgres-sync", "file-async", "memory-async"]
    leg = f"{shared.engine}-{shared.interface}"
    machine = type("Machine", (SessionMachine,), {"store": shared.store})
    number = legs.index(leg) if leg in legs else len(legs)
    run_state_machine_as_test(
        machine if TORTURE else seed(number)(machine),
        settings=settings(
            max_examples=EXAMPLES.get(leg, FEWER),
            stateful_step_count=STEPS,
            report_multiple_bugs=False,
        ),
    )
