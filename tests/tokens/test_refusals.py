"""Any error of an agent can be given to `recover`, whatever it was raised from."""

import httpx2
import openai
import pytest

from roocontext.tokens import Limit
from roocontext.tokens.refusals import PromptTooLong, remembered, too_long, with_remembered

REFUSAL = "prompt is too long: 210000 tokens > 200000 maximum"


def test_error_that_is_its_own_cause_is_read_once():
    first, second = ValueError("x"), ValueError("y")
    first.__cause__, second.__cause__ = second, first
    assert too_long(first) is None
    second.args = (REFUSAL,)
    assert too_long(first) == PromptTooLong(210_000, 200_000)


def test_refusal_is_found_behind_any_number_of_errors():
    error = Exception("prompt is too long: 300 tokens > 200")
    for number in range(5_000):
        wrapper = RuntimeError(f"attempt {number}")
        wrapper.__cause__ = error
        error = wrapper
    assert too_long(error) == PromptTooLong(300, 200)


def test_only_exception_groups_have_errors_inside():
    class WithNone(Exception):
        exceptions = None

    assert too_long(WithNone(REFUSAL)) == PromptTooLong(210_000, 200_000)
    assert too_long(WithNone("x")) is None
    group = ExceptionGroup("two", [ValueError("x"), ExceptionGroup("in", [ValueError(REFUSAL)])])
    assert too_long(group) == PromptTooLong(210_000, 200_000)


def test_absurd_numbers_are_no_numbers():
    assert too_long(ValueError(f"prompt is too long: {'9' * 5000} tokens > 2")) == PromptTooLong()


NAMED = """
anthropic 210000 200000 prompt is too long: 210000 tokens > 200000 maximum
anthropic-output 195000 200000 exceed context limit: 195000 + 20000 > 200000, decrease
openai 150000 128000 This model's maximum context length is 128000 tokens. However, your
  messages resulted in 150000 tokens. Please reduce the length of the messages.
openai-input 300000 272000 Input tokens exceed the configured limit of 272000 tokens. Your
  messages resulted in 300000 tokens. Please reduce the length of the messages.
deepseek 69128 65536 This model's maximum context length is 65536 tokens. However, you requested
  69128 tokens (61128 in the messages, 8000 in the completion).
openrouter 137422 131072 This endpoint's maximum context length is 131072 tokens. However, you
  requested about 137422 tokens (129422 of text input, 8000 in the output).
vllm 246773 262144 'max_tokens' is too large: 16384. This model's maximum context length is 262144
  tokens and your request has 246773 input tokens
vllm-prompt 5951 4096 The decoder prompt (length 5951) is longer than the maximum model length of
  4096.
sglang 40000 32768 Requested token count exceeds the model's maximum context length of 32768
  tokens. You requested a total of 40000 tokens: 39000 tokens from the input messages
together 516368 262144 The input (516368 tokens) is longer than the model's context length (262144
  tokens).
siliconflow 265330 262144 Input length (265330) exceeds model's maximum context length (262144).
xai 537812 131072 This model's maximum prompt length is 131072 but the request contains 537812
  tokens.
gemini 1196265 1048575 The input token count (1196265) exceeds the maximum number of tokens allowed
  (1048575).
gemini-short - 1048576 The input token count exceeds the maximum number of tokens allowed 1048576.
copilot 200000 128000 prompt token count of 200000 exceeds the limit of 128000
mistral 300000 131072 Prompt contains 300000 tokens and 0 draft tokens, too large for model with
  131072 maximum context length
kimi 291351 262144 Invalid request: Your request exceeded model token limit: 262144 (requested:
  291351)
kimi-short - 8192 Your request exceeded model token limit: 8192
qwen - 202745 InternalError.Algo.InvalidParameter: Range of input length should be [1, 202745]
llama.cpp 9001 8192 request (9001 tokens) exceeds the available context size (8192 tokens), try
  increasing it
tgi 5000 4096 Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given:
  5000 `inputs` tokens and 512 `max_new_tokens`
cohere 5000 4081 too many tokens: total number of tokens in the prompt cannot exceed 4081 -
  received 5000
separators 300000 131072 Prompt has 300,000 tokens, but the configured context size is 131,072
  tokens
bedrock - - Input is too long for requested model.
groq - - Please reduce the length of the messages or completion.
minimax - - invalid params, context window exceeds limit (2013)
""".strip().replace("\n  ", " ")
"""Providers, the tokens and the limit that each names, and its text as the provider words it."""


@pytest.mark.parametrize("provider", NAMED.split("\n"))
def test_numbers_of_each_provider_are_read(provider):
    _, *numbers, text = provider.split(" ", 3)
    tokens, limit = (None if number == "-" else int(number) for number in numbers)
    assert too_long(RuntimeError(text)) == PromptTooLong(tokens, limit)


class ClientError(Exception):
    """botocore's error: its text, and the response as a dict."""

    def __init__(self, response, operation_name):
        error = response["Error"]
        super().__init__(
            f"An error occurred ({error['Code']}) when calling the {operation_name} operation"
            f" (reached max retries: 4): {error['Message']}"
        )
        self.response, self.operation_name = response, operation_name


def bedrock_error(code, message, status=400, operation="Converse"):
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"RequestId": "r", "HTTPStatusCode": status, "RetryAttempts": 4},
    }
    return ClientError(response, operation)


def litellm_error(name, message, status=400):
    """An error of LiteLLM: a subclass of the error of OpenAI's SDK, with a text of its own."""
    request = httpx2.Request("POST", "http://localhost/v1/chat/completions")
    response = httpx2.Response(status, request=request)
    base = openai.RateLimitError if status == 429 else openai.BadRequestError
    error = type(name, (base,), {})(message, response=response, body=None)
    error.llm_provider = "bedrock"
    return error


@pytest.mark.parametrize("operation", ["Converse", "ConverseStream"])
@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        ("Input is too long for requested model.", (None, None)),
        (f"The model returned the following errors: {REFUSAL}", (210_000, 200_000)),
        (
            "Too many input tokens. Max input tokens: 8192, request input token count: 9043",
            (9_043, 8_192),
        ),
        ("The model returned the following errors: too many total text bytes", (None, None)),
    ],
)
def test_refusal_of_bedrock_is_read(message, numbers, operation):
    error = bedrock_error("ValidationException", message, operation=operation)
    assert too_long(error) == PromptTooLong(*numbers)


def test_large_body_is_refused_by_its_status():
    assert too_long(bedrock_error("SomeException", "No.", 413)) == PromptTooLong()


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        ("litellm.ContextWindowExceededError: BedrockException - No.", (None, None)),
        (f"litellm.BadRequestError: AnthropicException - {REFUSAL}", (210_000, 200_000)),
        ("It is too much.", (None, None)),
    ],
)
def test_refusal_of_litellm_is_read(message, numbers):
    assert too_long(litellm_error("ContextWindowExceededError", message)) == PromptTooLong(*numbers)


NOT_ABOUT_LENGTH = [
    RuntimeError(
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000."
    ),
    RuntimeError(
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens"
    ),
    RuntimeError("The maximum tokens you requested exceeds the model limit of 8192"),
    RuntimeError("You exceeded your current quota"),
    RuntimeError("model not found"),
    bedrock_error("ThrottlingException", "Too many tokens, please wait before trying again.", 429),
    bedrock_error("throttlingException", "Too many tokens per day"),
    bedrock_error("ServiceQuotaExceededException", "Too many tokens", 429),
    bedrock_error("ValidationException", "The toolConfig field must be defined."),
    bedrock_error("AccessDeniedException", "You don't have access to the model.", 403),
    litellm_error("RateLimitError", "Too many tokens", 429),
    litellm_error("RateLimitError", "litellm.RateLimitError: too many tokens", 429),
    litellm_error("BadRequestError", "litellm.BadRequestError: No."),
]


@pytest.mark.parametrize("error", NOT_ABOUT_LENGTH, ids=str)
def test_another_refusal_is_not_about_length(error):
    assert too_long(error) is None


def test_numbers_may_be_in_the_body_of_the_error():
    refused = RuntimeError("Error code: 400")
    refused.body = {"error": {"n_prompt_tokens": 5_000, "n_ctx": 4_096}}
    assert too_long(refused) == PromptTooLong(5_000, 4_096)


@pytest.mark.parametrize(
    ("refusal", "cap"),
    [
        (PromptTooLong(), 75_000),
        (PromptTooLong(200_000, 100_000), 47_500),
        (PromptTooLong(110_000, 100_000), 75_000),
        (PromptTooLong(None, 10_000), 9_500),
        (PromptTooLong(90_000, 100_000), 75_000),
    ],
)
def test_request_is_cut_to_the_provider_s_limit_or_to_three_quarters(refusal, cap):
    assert refusal.cap(100_000) == cap


ASSUMED = Limit(128_000, None, "default")
TABLE = Limit(200_000, 64_000, "table:m")
GIVEN = Limit(200_000, None, "override")


def test_limit_is_remembered_by_model():
    note = remembered(None, "acme-1", 32_768, ASSUMED)
    note = remembered(note, "acme-2", 16_384, ASSUMED)
    note = remembered(note, "openrouter/acme-1", 65_536, ASSUMED)
    assert [(it["model"], it["limit"]) for it in note["limits"]] == [
        ("acme-2", 16_384),
        ("openrouter/acme-1", 65_536),
    ]
    assert with_remembered(ASSUMED, "acme-1", note) == Limit(65_536, None, "refusal")
    assert with_remembered(ASSUMED, "acme-2", note).context == 16_384
    assert with_remembered(ASSUMED, "acme-3", note) == ASSUMED


def test_assumed_limit_is_replaced_and_any_other_is_lowered():
    larger = remembered(None, "m", 1_000_000, ASSUMED)
    assert with_remembered(ASSUMED, "m", larger).context == 1_000_000
    assert with_remembered(TABLE, "m", larger) == TABLE
    assert with_remembered(GIVEN, "m", larger) == GIVEN
    smaller = remembered(None, "m", 100_000, TABLE)
    assert with_remembered(TABLE, "m", smaller) == Limit(100_000, 64_000, "refusal")
    assert with_remembered(GIVEN, "m", smaller).context == 100_000


def test_larger_limit_that_is_given_later_counts_again():
    note = remembered(None, "m", 32_768, GIVEN)
    later = GIVEN._replace(context=400_000)
    assert with_remembered(later, "m", note) == later
    assert with_remembered(TABLE._replace(context=400_000), "m", note).context == 32_768


@pytest.mark.parametrize("named", [0, 1, 1_023])
def test_absurd_limit_is_not_remembered(named):
    assert remembered(None, "m", named, ASSUMED) is None


def test_known_limit_is_not_remembered_again():
    note = remembered(None, "m", 32_768, ASSUMED)
    assert remembered(note, "m", 32_768, with_remembered(ASSUMED, "m", note)) is None


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"limits": None},
        {"limits": [None, {}, {"model": 1, "limit": 2, "used": 3}]},
        {
            "limits": [
                {"model": "m", "limit": "9", "used": 3},
                {"model": "m", "limit": 0, "used": 1},
            ]
        },
        {"limits": [{"model": "m" * 201, "limit": 2_000, "used": 3}]},
    ],
)
def test_note_of_another_program_is_ignored(content):
    assert with_remembered(ASSUMED, "m", content) == ASSUMED
