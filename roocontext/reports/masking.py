"""Secrets and local paths in texts, masked for a page that is given to others.

What a pattern does not know is not masked, so a page has to be read before it is given away. The
counts by kind say what was found.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

_ROOTS: Final = "home|Users|root|tmp|var|opt|srv|mnt|work|workspace|workspaces|private|Volumes|data"
_NAME: Final = r"[\w-]{0,40}(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)[\w-]{0,40}"
"""The name of a secret."""

_PATTERNS: Final = (
    (
        "private key",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    ),
    (
        "API key",
        (
            r"\b(?:sk-[\w-]{16,}|[sr]k_(?:live|test)_\w{16,}|gh[opusr]_\w{20,}|github_pat_\w{20,}"
            r"|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{30,}|hf_\w{20,}"
            r"|npm_\w{30,}|pypi-[\w-]{30,}|ya29\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,})"
        ),
    ),
    ("token", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    ("token", r"(?i:(?<=bearer )[\w.~+/-]{16,}=*)"),
    ("password", r"(?<=://)[^\s:/@]*:[^\s@/]+(?=@)"),
    (
        "secret",
        (
            # Inside another text of JSON, a quotation mark comes after a backslash.
            rf"(?i:(?P<kept>\b{_NAME}\\?[\"']?\s{{0,9}}[:=]\s{{0,9}}\\?[\"']?)(?!\d+\b)"
            r"(?:[^\s\"',;()\[\]{}<>\\]|\\(?![\"'])){6,})"
        ),
    ),
    (
        "path",
        rf"(?:(?<![\w.~/])|(?<=file://))/(?:{_ROOTS})(?:/[^\s/\"'`<>|:;,()\[\]{{}}]+)*/?",
    ),
    # In JSON, a backslash is two.
    ("path", r"(?<!\w)[A-Za-z]:(?:\\{1,2}[^\s\\\"'`<>|:;,]+)+\\{0,2}"),
)
_NAMED: Final = re.compile(_NAME, re.IGNORECASE)
_VALUE: Final = re.compile(r"(?!\d+\Z).{6,}", re.DOTALL)
"""The value of a secret: numbers are counts of tokens."""
_COMPILED: Final = tuple((kind, re.compile(pattern, re.DOTALL)) for kind, pattern in _PATTERNS)


class Masker:
    """Masks texts, and counts what was masked by its kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """The text without what the patterns find."""
        for kind, pattern in _COMPILED:
            text = pattern.sub(partial(self._masked, kind), text)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value with all of its texts masked, and without images.

        A field may be a secret by its name, and masked names stay different.
        """
        # One frame a level, and so no comprehension: contents may be 500 levels deep.
        match value:
            case str():
                return self.text(value)
            case {"type": "base64", "data": str()}:
                self.counts["image or file"] += 1
                return {"type": "base64", "media_type": "left out", "data": ""}
            case dict():
                fields: dict[str, Any] = {}
                for (key, own), name in zip(value.items(), self._names(value), strict=True):
                    fields[name] = "[secret]" if self._is_secret(key, own) else self.value(own)
                return fields
            case list():
                items: list[Any] = []
                for own in value:
                    items.append(self.value(own))  # noqa: PERF401 - see above
                return items
        return value

    def _names(self, fields: Mapping[str, Any]) -> Iterator[str]:
        """The masked names of the fields, each different from those before it."""
        names = Counter[str]()
        for key in fields:
            name = self.text(key)
            names[name] += 1
            yield name if names[name] == 1 else f"{name} {names[name]}"

    def _is_secret(self, key: str, value: Any) -> bool:
        is_secret = _NAMED.fullmatch(key) and isinstance(value, str) and _VALUE.fullmatch(value)
        self.counts["secret"] += bool(is_secret)
        return bool(is_secret)

    def _masked(self, kind: str, match: re.Match[str]) -> str:
        self.counts[kind] += 1
        if kind == "path":
            # The name of a file says more than it gives away.
            *above, name = filter(None, re.split(r"^[A-Za-z]:|[\\/]", match[0]))
            return f"[path]/{name}" if len(above) > 1 and "." in name else "[path]"
        return f"{match.groupdict().get('kept') or ''}[{kind}]"


def counts_in_words(counts: Mapping[str, int]) -> str:
    """The masked values, counted: `2 API keys, 14 paths`."""
    return ", ".join(
        f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in sorted(counts.items())
    )
