"""The independent checks of every provider's messages, by the name of the outgoing form."""

from support import (
    provider_rules,
    provider_rules_chat,
    provider_rules_converse,
    provider_rules_gemini,
    provider_rules_responses,
)

CHECKS = {
    "anthropic": provider_rules.violations,
    "openai": provider_rules_chat.violations,
    "openai-responses": provider_rules_responses.violations,
    "gemini": provider_rules_gemini.violations,
    "bedrock-converse": provider_rules_converse.violations,
}
