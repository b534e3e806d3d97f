"""Any error of an agent can be given to `recover`, whatever it was raised from."""

from roocontext.context.prompt_too_long import PromptTooLong, too_long

REFUSAL = "prompt is too long: 210000 tokens > 200000 maximum"


def test_error_that_is_its_own_cause_is_read_once():
    first, second = ValueError("x"), ValueError("y")
    first.__cause__, second.__cause__ = second, first
    assert too_long(first) is None
    second.args = (REFUSAL,)
    assert too_long(first) == PromptTooLong(210_000, 200_000)


def test_only_exception_groups_have_errors_inside():
    class WithNone(Exception):
        exceptions = None

    assert too_long(WithNone(REFUSAL)) == PromptTooLong(210_000, 200_000)
    assert too_long(WithNone("x")) is None
    group = ExceptionGroup("two", [ValueError("x"), ExceptionGroup("in", [ValueError(REFUSAL)])])
    assert too_long(group) == PromptTooLong(210_000, 200_000)


def test_absurd_numbers_are_no_numbers():
    assert too_long(ValueError(f"prompt is too long: {'9' * 5000} tokens > 2")) == PromptTooLong()
