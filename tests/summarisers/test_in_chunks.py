"""The questions that are asked when the conversation does not fit into one."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roocontext.log.summary import SummaryRequest
from roocontext.summarisers.in_chunks import LEVELS, TooLong, Unanswerable, ask_in_chunks, grouped
from roocontext.summarisers.transcript import TOKEN, weight


def request_of(texts, **options):
    return SummaryRequest(messages=[{"role": "user", "content": text} for text in texts], **options)


def converse(request, answer, **options):
    """Ask until it ends; the questions, and the summary."""
    steps = ask_in_chunks(request, **options)
    questions = []
    put = next(steps)
    try:
        while True:
            questions.append(put)
            put = steps.send(answer(put))
    except StopIteration as end:
        return questions, end.value


def within(tokens, text="short"):
    """A model that reads so many tokens of TOKEN characters."""
    return lambda put: TooLong(put.weight, tokens * TOKEN) if put.weight > tokens * TOKEN else text


def test_conversation_that_fits_is_one_question():
    questions, summary = converse(request_of(["a", "b"]), lambda put: "done")
    assert summary == "done"
    assert len(questions) == 1


def test_groups_are_cut_between_texts():
    assert grouped(["a" * 40, "b" * 40, "c" * 40], 100) == [["a" * 40, "b" * 40], ["c" * 40]]
    assert grouped([], 100) == []


@given(st.lists(st.text("ab日", max_size=120), max_size=30), st.integers(60, 300))
def test_groups_hold_everything_in_order_and_fit(texts, room):
    groups = grouped(texts, room)
    assert all(groups)
    assert all(sum(map(weight, group)) + 2 * (len(group) - 1) <= room for group in groups)
    kept = [text for group in groups for text in group]
    assert len(kept) == len(texts)
    assert all(k == t or weight(t) > room for k, t in zip(kept, texts, strict=True))


@pytest.mark.parametrize("known", [None, 5_000])
def test_every_message_is_read_once_and_the_summaries_are_merged(known):
    texts = [f"<{n}> " + "x" * 3_000 for n in range(20)]
    questions, summary = converse(request_of(texts), within(5_000), fits=known)
    read = [put for put in questions if put.weight <= 5_000 * TOKEN]
    assert len(questions) - len(read) == (1 if known is None else 0)
    for n in range(20):
        assert sum(f"<{n}>" in put.texts[0] for put in read) == 1
    assert read[-1].texts[0].count("short") == len(read) - 1
    assert summary == "short"


def test_summaries_that_do_not_fit_are_merged_in_pieces_again():
    texts = ["x" * 3_000] * 30
    long = "y" * 4_000
    questions, _ = converse(
        request_of(texts), lambda put: long if "x" * 9 in put.texts[0] else "z", fits=4_000, most=40
    )
    assert len([put for put in questions if "y" * 9 in put.texts[0]]) > 1
    assert "z" in questions[-1].texts[0]


def test_summaries_that_never_shrink_end():
    answers = []

    def answer(put):
        answers.append(put)
        return "y" * 6_000

    with pytest.raises(Unanswerable, match=f"after {LEVELS} levels") as end:
        converse(request_of(["x" * 9_000] * 4), answer, fits=4_000, most=100)
    assert end.value.kind == "too_long"
    assert len(answers) < 100


def test_piece_that_is_too_long_is_cut_smaller_and_nothing_is_lost():
    texts = [f"<{n}> " + "x" * 900 for n in range(12)]
    questions, _ = converse(request_of(texts), within(2_500), fits=4_000)
    refused = [put for put in questions if put.weight > 2_500 * TOKEN]
    assert len(refused) == 1
    for n in range(12):
        read = [put for put in questions if put not in refused and f"<{n}>" in put.texts[0]]
        assert len(read) == 1


def test_too_many_pieces_are_refused_before_any_call():
    with pytest.raises(Unanswerable, match="calls are needed, and 3 are allowed"):
        converse(
            request_of(["x" * 9_000] * 9), lambda put: pytest.fail("asked"), fits=5_000, most=3
        )


def test_missing_room_is_refused_before_any_call():
    with pytest.raises(Unanswerable, match="leaves no room"):
        converse(request_of(["x"]), lambda put: pytest.fail("asked"), fits=10)


def test_giant_earlier_summary_leaves_room_for_the_conversation():
    questions, _ = converse(
        request_of(["<new>"], previous="y" * 100_000), within(3_000), fits=3_000
    )
    assert len(questions) == 1
    assert "characters left out" in questions[0].texts[0]
    assert "<new>" in questions[0].texts[1]


def test_empty_conversation_is_no_question():
    with pytest.raises(Unanswerable) as end:
        next(ask_in_chunks(request_of(["", " "])))
    assert end.value.kind == "nothing"


def test_earlier_summary_alone_can_be_summarised_again():
    questions, _ = converse(request_of([], previous="the old"), lambda put: "new")
    assert "the old" in questions[0].texts[0]


@given(st.integers(1, 30), st.integers(1, 6_000), st.integers(1, 12), st.booleans())
def test_summary_always_ends_within_the_allowed_calls(count, window, most, numbers):
    seen = []

    def answer(put):
        seen.append(put)
        if put.weight <= window * TOKEN:
            return "y" * (put.weight // 4)
        return TooLong(put.weight, window * TOKEN) if numbers else TooLong()

    with suppress(Unanswerable):
        converse(request_of(["x" * 2_000] * count), answer, most=most)
    assert len(seen) <= most
