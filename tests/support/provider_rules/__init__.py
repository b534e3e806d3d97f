"""The independent checks of every provider's messages, by the name of the outgoing form."""

from support.provider_rules import anthropic, chat, converse, gemini, responses

CHECKS = {
    "anthropic": anthropic.violations,
    "openai": chat.violations,
    "openai-responses": responses.violations,
    "gemini": gemini.violations,
    "bedrock-converse": converse.violations,
}
