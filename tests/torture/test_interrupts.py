"""Interrupts by a signal: the next caller always gets through, and nothing is lost."""

import os

TORTURE = bool(os.environ.get("ROOCONTEXT_TORTURE"))
TIMES = 20_000 if TORTURE else 30
STEP = 3 if TORTURE else 400


def test_random_interrupts_leave_no_lock(nursery, any_url):
    brood = nursery.run(("interrupt_at_random", {"url": any_url, "times": TIMES, "seed": 0}))
    assert brood.ends == [0]
    assert brood.told[0]["interrupts"] == TIMES


def test_interrupt_at_each_line_leaves_no_lock(nursery, any_url):
    step = STEP if "postgres" not in any_url else 2 * STEP  # where connecting anew takes long
    brood = nursery.run(("interrupt_everywhere", {"url": any_url, "step": step}))
    assert brood.ends == [0]
    assert all(told["places"] > 50 for told in brood.told)
