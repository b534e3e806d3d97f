"""Names of models: prefixes, dates and aliases, and which names are one model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roocontext.log.model_names import is_requested_as, is_same_model, model_parts

SAME = [
    ("gpt-5", "gpt-5-2025-08-07"),
    ("openai/gpt-5", "gpt-5-2025-08-07"),
    ("gpt-4", "gpt-4-0613"),
    ("claude-opus-5", "claude-opus-5-20260205"),
    ("claude-opus-5@20260205", "claude-opus-5-20260205"),
    ("us.anthropic.claude-opus-4-6-v1:0", "claude-opus-4-6"),
    ("global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6-20260101"),
    ("anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5@20251001"),
    ("bedrock/us.anthropic.claude-opus-5", "vertex_ai/claude-opus-5@default"),
    ("openrouter/anthropic/claude-opus-4.6", "claude-opus-4-6"),
    ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
    ("models/gemini-3-flash-preview", "gemini-3-flash-preview"),
    ("gemini-2.0-flash", "gemini-2.0-flash-001"),
    ("projects/p/locations/l/publishers/google/models/gemini-3-pro", "gemini-3-pro"),
    ("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash-preview"),
    ("openrouter/deepseek/deepseek-r1:free", "deepseek/deepseek-r1-0528"),
    ("GPT-5", "gpt-5"),
    ("qwen3:latest", "qwen3"),
    ("mistral-large", "mistral-large-2411"),
    ("meta.llama3-3-70b-instruct-v1:0", "us.meta.llama3-3-70b-instruct-v1:0"),
    ("gemini-flash-latest", "models/gemini-flash-latest"),
]
OTHERS = [
    ("gpt-5", "gpt-5-mini"),
    ("gpt-5", "gpt-5.1"),
    ("gpt-5-2025-08-07", "gpt-5-2026-01-15"),
    ("gpt-4-0613", "gpt-4-0314"),
    ("claude-opus-4-5", "claude-opus-4-6"),
    ("claude-opus-4", "claude-opus-4-6"),
    ("claude-opus-5@20260205", "claude-opus-5@20260301"),
    ("gemini-flash-latest", "gemini-3-flash"),
    ("gemini-flash-latest", "gemini-flash"),
    ("claude-x-latest", "claude-x-20260205"),
    ("azure/gpt-5", "openai/gpt-5"),
    ("gemini/gemini-3-pro", "vertex_ai/gemini-3-pro"),
    ("qwen3:32b", "qwen3:8b"),
    ("qwen3:32b", "qwen3"),
    ("ft:gpt-4o-2024-08-06:acme::1", "gpt-4o"),
    ("ft:gpt-4o-2024-08-06:acme::1", "ft:gpt-4o-2024-08-06:acme::2"),
    ("gpt-5", None),
]
NAMES = st.one_of(
    st.sampled_from([name for pair in SAME + OTHERS for name in pair if name]),
    st.text(max_size=60),
)


@pytest.mark.parametrize(("first", "second"), SAME)
def test_names_that_differ_by_prefix_or_date_are_one_model(first, second):
    assert is_same_model(first, second)
    assert is_same_model(second, first)


@pytest.mark.parametrize(("first", "second"), OTHERS)
def test_other_names_are_other_models(first, second):
    assert not is_same_model(first, second)
    assert not is_same_model(second, first)


@given(NAMES, NAMES)
def test_equality_is_symmetric_and_any_name_has_parts(first, second):
    assert is_same_model(first, first)
    assert is_same_model(first, second) == is_same_model(second, first)
    assert model_parts(first).name == model_parts(first).name.lower()


def test_unknown_model_is_equal_to_an_unknown_one_alone():
    assert is_same_model(None, None)
    assert not is_same_model(None, "")


def test_alias_is_what_a_reply_was_requested_as():
    assert is_requested_as("gemini-flash-latest", "models/gemini-flash-latest")
    assert is_requested_as("my-deployment", "azure/my-deployment")
    assert not is_requested_as("gpt-5-2026-01-15", "gpt-5")
    assert not is_requested_as("gpt-5", None)
