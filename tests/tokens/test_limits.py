"""Limits come from the caller, the environment, the table, the default, in this order."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roocontext.errors import InvalidIdentifier, InvalidOption, UnknownPlugin
from roocontext.log import counting
from roocontext.tokens import Limit, Switches, counter_for, limit_for, switches
from roocontext.tokens.limits import binds_thinking

OWN = {
    "gemini-2.5-pro": "GEMINI_2_5_PRO_MAX_CONTEXT_TOKENS",
    "gpt-4o": "GPT_4O_MAX_CONTEXT_TOKENS",
    "claude-opus-5": "CLAUDE_OPUS_5_MAX_CONTEXT_TOKENS",
}
FAMILY = {
    "gemini-2.5-pro": ("GEMINI_MAX_TOKENS", "GEMINI_MAX_CONTEXT_LENGTH"),
    "gpt-4o": ("CHATGPT_MAX_TOKENS", "CHATGPT_MAX_CONTEXT_LENGTH"),
}
ANY = ("MLC_MAX_CONTEXT_TOKENS", "DEFAULT_MAX_TOKENS", "DEFAULT_MAX_CONTEXT_LENGTH")
PRECEDENCE = {
    model: [own, "MODEL_MAX_CONTEXT_TOKENS", *FAMILY.get(model, ()), *ANY]
    for model, own in OWN.items()
}

EVERY_NAME = sorted({name for names in PRECEDENCE.values() for name in names})


@pytest.mark.parametrize("model", PRECEDENCE)
def test_most_specific_variable_wins(model):
    names = PRECEDENCE[model]
    environ = {name: str(1_000 + place) for place, name in enumerate(names)}
    for place, name in enumerate(names):
        limit = limit_for(model, environ=environ)
        assert (limit.context, limit.source) == (1_000 + place, name)
        del environ[name]
    assert limit_for(model, environ=environ).source == f"table:{model}"


@pytest.mark.parametrize("model", PRECEDENCE)
def test_variables_of_other_models_are_not_read(model):
    environ = {name: "5" for name in EVERY_NAME if name not in PRECEDENCE[model]}
    assert limit_for(model, environ=environ) == limit_for(model, environ={})


@given(st.dictionaries(st.sampled_from(EVERY_NAME), st.integers(1, 9).map(str)))
def test_override_beats_everything(environ):
    assert limit_for("gpt-4o", override=7, environ=environ) == Limit(7, 16_384, "override")


@pytest.mark.parametrize(
    ("value", "warnings"),
    [
        *((it, 1) for it in ("x", "1e3", "1.5", "0", "-5", " ", "9" * 400, "9" * 5_000, ["5"])),
        *(("\N{SNOWMAN}", 1), ("", 0)),
    ],
)
def test_invalid_value_warns_and_the_next_level_counts(value, warnings, caplog):
    environ = {"CHATGPT_MAX_TOKENS": value, "DEFAULT_MAX_TOKENS": " 12 "}
    with caplog.at_level(logging.WARNING, "roocontext"):
        limit = limit_for("gpt-4o", environ=environ)
    assert (limit.context, limit.source) == (12, "DEFAULT_MAX_TOKENS")
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warnings
    assert ("CHATGPT_MAX_TOKENS" in caplog.text) == bool(warnings)


@pytest.mark.parametrize("override", [0, -1, 1.5, "12", True, 10**400])
def test_invalid_override_warns_and_the_next_level_counts(override, caplog):
    with caplog.at_level(logging.WARNING, "roocontext"):
        limit = limit_for("gpt-4o", override=override, environ={})
    assert limit == Limit(128_000, 16_384, "table:gpt-4o")
    assert len(caplog.records) == 1


def test_model_that_is_no_text_is_refused():
    with pytest.raises(InvalidIdentifier):
        limit_for(None)


@pytest.mark.parametrize(
    "call",
    [
        lambda: limit_for("gpt-4o", profile=["default"]),
        lambda: limit_for("gpt-4o", environ=["DEFAULT_MAX_TOKENS"]),
        lambda: counter_for("gpt-4o", name=["bytes"]),
    ],
)
def test_argument_of_another_type_is_refused(call):
    with pytest.raises((InvalidOption, UnknownPlugin)):
        call()


def test_process_environment_is_read_anew_each_time(monkeypatch):
    for name in EVERY_NAME:
        monkeypatch.delenv(name, raising=False)
    assert limit_for("gpt-4o").context == 128_000
    monkeypatch.setenv("CHATGPT_MAX_TOKENS", "99")
    assert limit_for("gpt-4o") == Limit(99, 16_384, "CHATGPT_MAX_TOKENS")


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("claude-opus-4-6", "claude-opus-4-6"),
        ("anthropic/claude-opus-4.6", "claude-opus-4-6"),
        ("us.anthropic.claude-opus-4-20250514-v1:0", "claude-opus-4"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
        ("claude-haiku-5-5", "claude-haiku-5"),
        ("Claude-3-5-Sonnet-latest", "claude-3-5-sonnet"),
        ("gpt-4o-mini", "gpt-4o"),
        ("gpt-4.1-nano", "gpt-4.1"),
        ("gpt-4-0613", "gpt-4"),
        ("gpt-4-1106-preview", "gpt-4-1106"),
        ("models/gemini-2.5-flash-lite", "gemini-2.5-flash"),
        ("o3-mini-2025-01-31", "o3"),
        ("deepseek-chat", "deepseek-chat"),
        ("openrouter/deepseek/deepseek-r1-0528:free", "deepseek-r1"),
        ("us.deepseek.r1-v1:0", "deepseek.r1"),
        ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2-instruct-0905"),
        ("kimi-k2-0905-preview", "kimi-k2-0905"),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", "qwen3-coder-480b"),
        ("qwen3-coder:30b", "qwen3-coder-30b"),
        ("qwen3:32b", "qwen3-32b"),
        ("mistral-large-latest", "mistral-large-latest"),
        ("xai/grok-4-0709", "grok-4"),
        ("grok-4-fast-reasoning", "grok-4-fast"),
        ("openai.gpt-oss-120b-1:0", "gpt-oss-120b"),
        ("gpt-oss:20b", "gpt-oss-20b"),
        ("meta.llama3-3-70b-instruct-v1:0", "llama3-3-70b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"),
        ("llama3.3:70b", "llama3.3-70b"),
        ("us.amazon.nova-pro-v1:0", "nova-pro"),
        ("zai-org/GLM-4.6", "glm-4.6"),
        ("global.moonshotai.kimi-k3", "kimi-k3"),
    ],
)
def test_name_finds_its_line(model, line):
    assert limit_for(model, environ={}).source == f"table:{line}"


@pytest.mark.parametrize("model", ["", "llama", "gpt-4.9", "gpt", "claude", "my-gpt-4", "gpt4"])
def test_unknown_model_is_assumed_to_hold_128000(model):
    assert limit_for(model, environ={}) == Limit(128_000, None, "default")
    given = {"DEFAULT_MAX_TOKENS": "12"}
    assert limit_for(model, environ=given) == Limit(12, None, "DEFAULT_MAX_TOKENS")
    assert limit_for(model, profile="sliding_window", environ={}) == Limit(4_096, None, "default")


def test_sliding_window_has_the_same_table_and_variables():
    environ = {"CHATGPT_MAX_TOKENS": "99"}
    for model in ("gpt-4o", "claude-opus-5", "deepseek-chat"):
        limits = {
            limit_for(model, profile=it, environ=environ) for it in ("default", "sliding_window")
        }
        assert len(limits) == 1


@pytest.mark.parametrize("model", ["", "GEMINI-1.5-PRO", "gemini-1.5-pro-latest"])
def test_gemini_compares_letter_by_letter(model):
    assert limit_for(model, profile="gemini", environ={}) == Limit(1_048_576, None, "default")
    image = "gemini-2.0-flash-preview-image-generation"
    assert limit_for(image, profile="gemini", environ={}).context == 32_000


def test_multi_llm_chat_takes_the_first_line_that_fits_anywhere():
    def limit(model, **environ):
        return limit_for(model, profile="multi_llm_chat", environ=environ)

    assert limit("my-GPT-4-Turbo") == Limit(128_000, None, "table:gpt-4-turbo")
    assert limit("gpt-3.5-turbo-16k").context == 16_385
    assert limit("gpt-4", CHATGPT_MAX_CONTEXT_LENGTH="-3").context == -3
    assert limit("gemini-gpt", CHATGPT_MAX_CONTEXT_LENGTH="5").context == 5
    assert limit("gpt-4", CHATGPT_MAX_TOKENS="5").context == 8_192


def test_unknown_profile_is_refused_with_the_known_ones():
    with pytest.raises(UnknownPlugin, match="multi_llm_chat") as refused:
        limit_for("gpt-4o", profile="other")
    assert refused.value.known == ("default", "sliding_window", "gemini", "multi_llm_chat")


@given(st.text(max_size=200), st.sampled_from(["default", "gemini", "multi_llm_chat"]))
def test_every_model_has_a_limit_and_a_source(model, profile):
    limit = limit_for(model, profile=profile, environ={})
    assert limit.context > 0
    assert limit.source == "default" or limit.source.startswith("table:")


@pytest.mark.parametrize(
    ("environ", "autocompact", "prune"),
    [
        ({}, True, True),
        ({"OPENCODE_DISABLE_AUTOCOMPACT": "1"}, False, True),
        ({"OPENCODE_DISABLE_PRUNE": "TRUE"}, True, False),
        ({"OPENCODE_DISABLE_PRUNE": "0"}, True, True),
        ({"OPENCODE_DISABLE_PRUNE": "yes"}, True, True),
    ],
)
def test_switches_of_opencode_change_the_limit(environ, autocompact, prune):
    assert switches(environ) == Switches(autocompact=autocompact, prune=prune)


BINDING = [
    *("claude-fable-5-1", "claude-fable-5.1", "anthropic/claude-fable-5-1-20260901"),
    *("us.anthropic.claude-opus-6-v1:0", "CLAUDE-HAIKU-10-2"),
]
FREE = [
    *("claude-fable-5", "claude-opus-5-20260205", "claude-opus-4-8", "claude-3-7-sonnet-20250219"),
    *("gpt-6", "not-claude-opus-6"),
]


@pytest.mark.parametrize("model", [*BINDING, *FREE])
def test_table_says_which_models_bind_their_thinking(model):
    assert binds_thinking(model) is counting.is_bound_to_prefix(model) is (model in BINDING)
    assert counting.is_bound_to_prefix(None) is False
