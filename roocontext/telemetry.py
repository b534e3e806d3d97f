"""Spans and metrics of a store's operations for OpenTelemetry, by its conventions for GenAI.

The names are those of semantic-conventions-genai at revision fee465d (schema gen-ai-dev 1.42.0);
they are in development there, so another revision is another version of this module. What has no
name there begins with `roocontext.`. Nothing that is exported is content.
"""

from typing import Any, Final

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.trace import SpanKind, StatusCode
except ImportError:
    raise ImportError("Install the extra: pip install 'roocontext[otel]'.") from None

from roocontext.store.engine.observing import Observer, ReportedCall, StoreOperation
from roocontext.tokens import usage_tokens

__all__ = ["Observer", "OpenTelemetry", "ReportedCall", "StoreOperation"]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

_NAMES: Final = {"search": "search_memory", "redact": "delete_memory", "purge": "delete_memory"}
"""Operations that have a name in the conventions."""
_DURATIONS: Final = [
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005),
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
]
"""Those of the conventions, and shorter ones: an append takes less than a millisecond."""
_TOKENS: Final = [4**power for power in range(14)]


class OpenTelemetry:
    """An observer that makes a span of each operation, and measures it: `observer=OpenTelemetry()`.

    The global providers are used unless others are given. Recorded replies count as token usage;
    switch that off with `token_usage=False` if the SDK of the provider is instrumented too.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        *,
        token_usage: bool = True,
    ) -> None:
        self._token_usage = token_usage
        self._tracer = trace.get_tracer("roocontext", None, tracer_provider, SCHEMA_URL)
        meter = metrics.get_meter("roocontext", "", meter_provider, SCHEMA_URL)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_DURATIONS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._waits = {
            name: meter.create_histogram(
                f"roocontext.{name}",
                unit="s",
                description=description,
                explicit_bucket_boundaries_advisory=_DURATIONS,
            )
            for name, description in (
                ("lock_wait", "Time that a write waited for other writers."),
                ("connection_wait", "Time that an operation waited for a connection."),
            )
        }
        self._retries = meter.create_counter(
            "roocontext.retries",
            unit="{retry}",
            description="Operations run again because another writer was in the way.",
        )

    def started(self, operation: StoreOperation) -> None:
        """See Observer."""
        attributes = _attributes(operation)
        if operation.session_id is not None:
            attributes["gen_ai.conversation.id"] = operation.session_id
        span = self._tracer.start_span(
            f"roocontext.{operation.name}", kind=SpanKind.INTERNAL, attributes=attributes
        )
        operation.state = span, context.attach(trace.set_span_in_context(span))

    def finished(self, operation: StoreOperation) -> None:
        """See Observer."""
        if operation.state is None:  # it could not be started
            return
        span, token = operation.state
        context.detach(token)
        if span.is_recording():
            span.set_attributes(_facts(operation))
        if operation.error is not None:
            span.set_status(StatusCode.ERROR)
        span.end()
        self._measure(operation)

    def _measure(self, operation: StoreOperation) -> None:
        attributes = _attributes(operation)
        waits = {"lock_wait": operation.lock_wait, "connection_wait": operation.connection_wait}
        for name, seconds in waits.items():
            if seconds:
                self._waits[name].record(seconds, attributes)
        if operation.retries:
            self._retries.add(operation.retries, attributes)
        for call in operation.calls if self._token_usage else ():
            self._count(call)
        if operation.error is not None:
            attributes["error.type"] = operation.error
        self._duration.record(operation.duration, attributes)

    def _count(self, call: ReportedCall) -> None:
        usage = usage_tokens(call.usage)
        if usage is not None:
            attributes = {"gen_ai.operation.name": "chat"}
            if call.model is not None:
                attributes["gen_ai.response.model"] = call.model
            for kind in ("input", "output"):
                tokens = getattr(usage, kind)
                self._tokens.record(tokens, {**attributes, "gen_ai.token.type": kind})


def _attributes(operation: StoreOperation) -> dict[str, Any]:
    """The attributes of each span and each measurement."""
    name = _NAMES.get(operation.name, operation.name)
    return {"gen_ai.operation.name": name, "gen_ai.provider.name": "roocontext"}


def _facts(operation: StoreOperation) -> dict[str, Any]:
    """The attributes of a span that are known when its operation is over."""
    facts: dict[str, Any] = {
        "roocontext.retries": operation.retries,
        "roocontext.lock_wait": operation.lock_wait,
        "roocontext.connection_wait": operation.connection_wait,
    }
    facts |= {f"roocontext.{name}": number for name, number in operation.counts.items()}
    if operation.session_id is not None:
        facts["gen_ai.conversation.id"] = operation.session_id
    if operation.compacted:  # by the conventions never False
        facts["gen_ai.conversation.compacted"] = True
    if operation.error is not None:
        facts["error.type"] = operation.error
    if operation.calls:
        facts |= _usage(operation.calls[-1])
    return facts


def _usage(call: ReportedCall) -> dict[str, Any]:
    """The attributes of a recorded reply."""
    facts: dict[str, Any] = {} if call.model is None else {"gen_ai.response.model": call.model}
    usage = usage_tokens(call.usage)
    if usage is None:
        return facts
    facts |= {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "gen_ai.usage.cache_write.input_tokens": usage.written,
    }
    if usage.thinking is not None:
        facts["gen_ai.usage.reasoning.output_tokens"] = usage.thinking
    return facts
