"""Any function can summarise, and a second summariser can stand by."""

import asyncio
import functools
from dataclasses import replace

import pytest

from roocontext.errors import InvalidOption, SummaryFailed, UnknownPlugin
from roocontext.log.summary import FailedCalls, Summary, SummaryRequest, failed_calls, total_cost
from roocontext.summarisers import (
    AsyncFallback,
    Extractive,
    Fallback,
    as_summariser,
    is_async,
    summarised,
    summariser_for,
    summarisers,
    with_fallback,
)

REQUEST = SummaryRequest(messages=[{"role": "user", "content": "Why?"}])
SPENT = {"calls": 2, "input_tokens": 30, "output_tokens": 4, "cost": 0.5}


def shout(request):
    return request.messages[0]["content"].upper()


async def whisper(request):
    await asyncio.sleep(0)
    return request.messages[0]["content"].lower()


def fail(request):
    raise SummaryFailed("No.", summariser="fail", kind="overloaded", status=529, **SPENT)


async def fail_softly(request):
    fail(request)


def test_function_summarises():
    made = as_summariser(shout)
    assert made.summarise(REQUEST) == Summary(text="WHY?", summariser="shout", calls=1)
    assert not is_async(made)


def test_function_is_asked_for_the_model_of_the_request_and_may_name_another():
    request = replace(REQUEST, model="large")
    assert as_summariser(shout).summarise(request).model == "large"
    other = Summary(text="x", summariser="mine", model="small")
    assert as_summariser(lambda _: other).summarise(request).model == "small"
    for function in (fail, lambda _: 1 / 0, lambda _: ""):
        with pytest.raises(SummaryFailed) as failed:
            as_summariser(function).summarise(request)
        assert failed.value.model == "large"


def test_failure_without_a_name_is_that_of_who_was_asked(caplog):
    def busy(request):
        raise SummaryFailed(kind="overloaded")

    class Busy:
        name = "mine"

        def summarise(self, request):
            busy(request)

    for thing, name in ((busy, "busy"), (Busy(), "mine")):
        caplog.clear()
        summary = with_fallback(thing, shout).summarise(REQUEST)
        assert [one.summariser for one in summary.failed] == [name]
        assert caplog.messages == [f"{name} gave no summary: overloaded. shout was used instead."]
        with pytest.raises(SummaryFailed, match=f"^{name}, busy gave no summary"):
            with_fallback(thing, busy).summarise(REQUEST)


def test_coroutine_function_summarises():
    for thing in (whisper, functools.partial(whisper)):
        made = as_summariser(thing)
        assert is_async(made)
        assert asyncio.run(summarised(made, REQUEST)).text == "why?"
    assert as_summariser(whisper).name == "whisper"


def test_callable_objects_summarise_either_way():
    class Loud:
        def __call__(self, request):
            return Summary(text="LOUD", summariser="mine", cost=1.0)

    class Soft:
        async def __call__(self, request):
            return "soft"

    assert as_summariser(Loud()).summarise(REQUEST) == Summary(
        text="LOUD", summariser="mine", cost=1.0
    )
    assert asyncio.run(summarised(as_summariser(Soft()), REQUEST)).summariser == "Soft"


def test_summariser_is_taken_as_it_is():
    extractive = Extractive()
    assert as_summariser(extractive) is extractive


def test_blocking_summariser_can_be_awaited():
    assert asyncio.run(summarised(as_summariser(shout), REQUEST)).text == "WHY?"


def test_wrong_object_is_refused():
    for thing in (None, 7, "extractive", object()):
        with pytest.raises(InvalidOption, match="summariser"):
            as_summariser(thing)


@pytest.mark.parametrize(
    ("answer", "kind"), [("", "empty"), (" \n", "empty"), (None, "invalid"), (b"x", "invalid")]
)
def test_empty_answer_is_a_failure(answer, kind):
    with pytest.raises(SummaryFailed) as failed:
        as_summariser(lambda request: answer).summarise(REQUEST)
    assert failed.value.kind == kind


def test_coroutine_that_nobody_awaits_is_a_failure_and_is_closed():
    def forget(request):
        return whisper(request)

    with pytest.raises(SummaryFailed) as failed:
        as_summariser(forget).summarise(REQUEST)
    assert failed.value.kind == "invalid"


def test_exception_of_a_function_is_a_failure_without_its_text():
    def leak(request):
        raise ValueError("the secret is 42")

    with pytest.raises(SummaryFailed) as failed:
        as_summariser(leak).summarise(REQUEST)
    assert failed.value.kind == "error"
    assert "secret" not in str(failed.value)
    assert isinstance(failed.value.__cause__, ValueError)


def test_interrupts_and_cancellation_are_no_failures():
    def stop(request):
        raise KeyboardInterrupt

    async def cancel(request):
        raise asyncio.CancelledError

    with pytest.raises(KeyboardInterrupt):
        with_fallback(stop, shout).summarise(REQUEST)

    async def run():
        with pytest.raises(asyncio.CancelledError):
            await with_fallback(cancel, shout).summarise(REQUEST)

    asyncio.run(run())


def test_successful_summariser_has_no_fallback():
    made = with_fallback(shout, fail)
    assert isinstance(made, Fallback)
    assert made.name == "shout, fail"
    assert made.summarise(REQUEST) == Summary(text="WHY?", summariser="shout", calls=1)


def test_fallback_reports_the_failure_and_its_cost():
    summary = with_fallback(fail, shout).summarise(REQUEST)
    assert (summary.text, summary.fallback, summary.summariser) == ("WHY?", "overloaded", "shout")
    assert (summary.calls, summary.cost) == (1, None)
    assert summary.failed == (FailedCalls(summariser="fail", kind="overloaded", **SPENT),)
    assert total_cost((*summary.failed, summary)) == 0.5


@pytest.mark.parametrize(
    ("first", "second"), [(fail_softly, shout), (fail, whisper), (fail_softly, whisper)]
)
def test_either_kind_backs_either_kind(first, second):
    made = with_fallback(first, second)
    assert isinstance(made, AsyncFallback)
    assert is_async(made)
    summary = asyncio.run(summarised(made, REQUEST))
    assert (summary.fallback, len(summary.failed)) == ("overloaded", 1)


@pytest.mark.parametrize("first", [fail, fail_softly])
def test_failure_of_both_reports_and_sums_both(first):
    with pytest.raises(SummaryFailed) as failed:
        asyncio.run(summarised(with_fallback(first, fail), REQUEST))
    assert (failed.value.kind, failed.value.status) == ("overloaded, overloaded", 529)
    assert (failed.value.calls, failed.value.input_tokens, failed.value.cost) == (4, 60, 1.0)
    assert [one.calls for one in failed_calls(failed.value)] == [2, 2]


def test_fallbacks_can_be_stacked():
    summary = with_fallback(fail, with_fallback(fail, shout)).summarise(REQUEST)
    assert (summary.fallback, len(summary.failed)) == ("overloaded, overloaded", 2)


def test_names_of_summarisers_are_listed():
    assert summarisers.known() == (
        *("anthropic", "extractive", "gemini", "openai", "openai-responses"),
    )
    assert isinstance(summariser_for("extractive"), Extractive)
    with pytest.raises(UnknownPlugin, match="anthropic, extractive"):
        summariser_for("oracle")
