"""The laws that every plan of a policy keeps, unless it is a compat one."""

from typing import Any

from roocontext.log.counting import Budget
from roocontext.log.plan import Action, Plan
from roocontext.log.readings import reader
from roocontext.log.spans import within
from roocontext.policies.layout import Layout, whole_groups
from roocontext.policies.situation import Nothing, Situation
from support.deciding import seen
from support.dialogue import shown
from support.provider_rules.anthropic import violations
from support.separated import split


def commit_lawfully(chat: Any, before: Situation, plan: Plan) -> set[int]:
    """Commit a plan and hold what it does against the laws; the rows that left the view."""
    assert not plan.compat
    was = dict(zip(shown(chat), chat.view().messages, strict=True))
    tags = {row.message.seq: row[1:] for row in chat.internals.live()}
    dry = chat.commit(plan, dry_run=True)
    done = chat.commit(plan)
    gone = {seq for seq in was if seq not in shown(chat)}
    assert gone == {seq for seq in was if within(plan.hides, seq)}
    assert (dry.hidden, dry.cleared) == (done.hidden, done.cleared) == (len(gone), len(plan.clears))
    layout = Layout(before)
    assert not gone & whole_groups(layout.groups, before.pins | layout.waiting)
    readings = [reader(m.format).blocks(m.role, m.content) for m in was.values()]
    assert not split(readings, {index for index, seq in enumerate(was) if seq in gone})
    for row in chat.internals.live():
        seq = row.message.seq
        if seq in tags and seq not in gone:
            assert row[1:] == tags[seq]
        if seq in was and seq not in gone and seq not in {one for one, _ in plan.clears}:
            assert row.message == was[seq]
    assert not violations(chat.messages())
    counts = plan.counts
    assert counts is not None
    assert counts.before.tokens == before.size.tokens > counts.after.tokens
    if plan.action is not Action.CLEAR:
        assert [row.content for row in plan.rows] == [
            chat.message(seq).content for seq in done.rows
        ]
    assert chat.verify().ok
    return gone


def at_rest(chat: Any, before: Situation, policy: Any) -> Situation:
    """The situation after a plan: within every limit, and nothing is left to do."""
    after = seen(chat, window=before.window, overhead=before.overhead, limits=before.limits)
    assert not Budget(policy.limit).exceeded_by(after.size)
    assert not before.limits.exceeded_by(after.size)
    assert not policy.due(after.totals)
    assert isinstance(policy.decide(after), Nothing)
    return after
