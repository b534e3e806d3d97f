"""Secrets and local paths in texts, masked for a page that is given to others.

What a pattern does not know is not masked, so a page has to be read before it is given away. The
counts by kind say what was found.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

_ROOTS: Final = "home|Users|root|tmp|var|opt|srv|mnt|work|workspace|workspaces|private|Volumes|data"

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
    ("password", r"(?<=://)[^\s:/@]+:[^\s@/]+(?=@)"),
    (
        "secret",
        (
            r"(?i:(?P<kept>\b[\w-]{0,40}(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)"
            r"[\w-]{0,40}[\"']?\s{0,9}[:=]\s{0,9}[\"']?)(?!\d+\b)[^\s\"',;()\[\]{}<>]{6,})"
        ),
    ),
    ("path", rf"(?<![\w.~/])/(?:{_ROOTS})(?:/[^\s/\"'`<>|:;,()\[\]{{}}]+)*/?"),
    ("path", r"(?<!\w)[A-Za-z]:\\(?:[^\s\\\"'`<>|:;,]+\\)*"),
)
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
        """A JSON value with all of its texts masked, and without images."""
        match value:
            case str():
                return self.text(value)
            case {"type": "base64", "data": str()}:
                self.counts["image or file"] += 1
                return {"type": "base64", "media_type": "left out", "data": ""}
            case dict():
                return {self.text(key): self.value(own) for key, own in value.items()}
            case list():
                return [self.value(own) for own in value]
        return value

    def _masked(self, kind: str, match: re.Match[str]) -> str:
        self.counts[kind] += 1
        if kind == "path":
            # The name of a file says more than it gives away.
            name = re.split(r"[\\/]", match[0].rstrip("\\/"))[-1]
            parts = len(re.split(r"[\\/]", match[0].strip("\\/")))
            return f"[path]/{name}" if parts > 2 and "." in name else "[path]"
        return f"{match.groupdict().get('kept') or ''}[{kind}]"


def counts_in_words(counts: Mapping[str, int]) -> str:
    """The masked values, counted: `2 API keys, 14 paths`."""
    return ", ".join(
        f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in sorted(counts.items())
    )
