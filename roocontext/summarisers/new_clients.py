"""New clients of the providers' SDKs, for a summariser that is chosen by its name alone.

The SDKs are extras: each is imported only when one of its clients is created. The key and the
address are those of the environment, as the SDK reads them.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from roocontext.errors import InvalidOption


def new_client(summariser: str) -> Any:
    """Create the client that a summariser asks if none is given to it."""
    sdk = _SDKS[summariser]
    try:
        client = sdk.create()
    except ImportError:
        raise InvalidOption(
            f"The summariser {summariser} needs the package {sdk.package}, which is not installed.",
            advice=f"Install the extra: pip install 'roocontext[{sdk.extra}]'.",
            name="summariser",
        ) from None
    if client is None:
        raise InvalidOption(
            f"The summariser {summariser} needs a key.",
            advice=f"Set {sdk.key}, or pass a client.",
            name="summariser",
        )
    return client


def _anthropic() -> Any:
    import anthropic  # noqa: PLC0415 - an extra, loaded on first use

    client = anthropic.Anthropic()
    return client if client.api_key or client.auth_token or client.credentials else None


def _openai() -> Any:
    import openai  # noqa: PLC0415 - an extra, loaded on first use

    try:
        return openai.OpenAI()
    except openai.OpenAIError:
        return None


def _gemini() -> Any:
    from google import genai  # noqa: PLC0415 - an extra, loaded on first use

    try:
        return genai.Client()
    except ValueError:
        return None


class _Sdk(NamedTuple):
    """An SDK: its package and extra, the variable with the key, and how to create a client.

    `create` returns None if there is no key.
    """

    package: str
    extra: str
    key: str
    create: Callable[[], Any]


_OPENAI: Final = _Sdk("openai", "openai", "OPENAI_API_KEY", _openai)
_SDKS: Final = {
    "anthropic": _Sdk("anthropic", "anthropic", "ANTHROPIC_API_KEY", _anthropic),
    "gemini": _Sdk("google-genai", "gemini", "GEMINI_API_KEY", _gemini),
    "openai": _OPENAI,
    "openai-responses": _OPENAI,
}
"""The SDKs by the names of the summarisers."""
