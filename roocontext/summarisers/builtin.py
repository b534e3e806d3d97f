"""The registry of summarisers. The built-in ones register with the same call as a plugin.

A summariser that is chosen by its name alone asks a new client of the provider's SDK. The SDKs are
extras: each is imported only when one of its clients is created. The key and the address are those
of the environment, as the SDK reads them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.registry import Registry
from roocontext.summarisers import anthropic
from roocontext.summarisers.extractive import Extractive
from roocontext.summarisers.protocol import AnySummariser
from roocontext.summarisers.providers import CHAT, GEMINI, RESPONSES, summariser_over

SummariserFactory: TypeAlias = Callable[[str | None, Any], AnySummariser]
"""Takes the name of the model that writes the summary, and the caller's client, or None."""

summarisers: Registry[SummariserFactory] = Registry("roocontext.summarisers")


def summariser_for(name: str, *, model: str | None = None, client: Any = None) -> AnySummariser:
    """Create the summariser with this name; UnknownPlugin if there is none."""
    return summarisers[name](model, client)


class _Sdk(NamedTuple):
    """An SDK: its package and extra, the variable with the key, and how to create a client.

    `create` returns None if there is no key.
    """

    package: str
    extra: str
    key: str
    create: Callable[[], Any]


def _anthropic_client() -> Any:
    import anthropic  # noqa: PLC0415 - an extra, loaded on first use

    client = anthropic.Anthropic()
    return client if client.api_key or client.auth_token or client.credentials else None


def _openai_client() -> Any:
    import openai  # noqa: PLC0415 - an extra, loaded on first use

    try:
        return openai.OpenAI()
    except openai.OpenAIError:
        return None


def _gemini_client() -> Any:
    from google import genai  # noqa: PLC0415 - an extra, loaded on first use

    try:
        return genai.Client()
    except ValueError:
        return None


_ANTHROPIC: Final = _Sdk("anthropic", "anthropic", "ANTHROPIC_API_KEY", _anthropic_client)
_OPENAI: Final = _Sdk("openai", "openai", "OPENAI_API_KEY", _openai_client)
_GOOGLE: Final = _Sdk("google-genai", "gemini", "GEMINI_API_KEY", _gemini_client)


def _new_client(summariser: str, sdk: _Sdk) -> Any:
    """Create the client that a summariser asks if none is given to it."""
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


def _register(name: str, sdk: _Sdk, over: Callable[[Any, str | None], AnySummariser]) -> None:
    summarisers.register(
        name,
        lambda model, client: over(_new_client(name, sdk) if client is None else client, model),
    )


_register(anthropic.NAME, _ANTHROPIC, anthropic.over)
for _provider, _sdk in ((CHAT, _OPENAI), (RESPONSES, _OPENAI), (GEMINI, _GOOGLE)):
    _register(_provider.name, _sdk, partial(summariser_over, provider=_provider))
summarisers.register("extractive", lambda _model, _client: Extractive())
