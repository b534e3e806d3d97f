"""Hostile content: JSON that agents really send and that stores change without a word.

Each case is a value that a tool was called with, or a block. A case that a store refuses with an
error is not lost; one that comes back different is.
"""

from typing import Any

NUMBERS: dict[str, Any] = {
    "1": 1,
    "1.0": 1.0,
    "true": True,
    "1e2": 1e2,
    "-0.0": -0.0,
    "0.1 + 0.2": 0.1 + 0.2,
    "5e-324": 5e-324,
    "1.7976931348623157e308": 1.7976931348623157e308,
    "2**53 + 1": 2**53 + 1,
    "2**63 - 1": 2**63 - 1,
    "2**64": 2**64,
    "2**70": 2**70,
    "-(2**70)": -(2**70),
    "null": None,
}

TEXTS: dict[str, Any] = {
    "empty": "",
    "a space": " ",
    "line ends": "\r\n\r\n\t",
    "controls": "\x01\x1b[31m\x7f\x85",
    "line separators": "\u2028\u2029",
    "a byte order mark": "\ufefftext",
    "not normalised": "e\u0301 \u00e9",
    "beyond 16 bits": "\U0001f9ed\U0010ffff",
    "not characters": "\ufffe\uffff",
    "a backslash": '\\u0041 \\ " </script>',
    "looks like JSON": '{"a": 1e2}',
}

NUL: dict[str, Any] = {"NUL": "before\x00after"}

SURROGATES: dict[str, Any] = {
    "a lone surrogate": "half \ud83e",
    "reversed surrogates": "\udd9d\ud83e",
}

STRUCTURES: dict[str, Any] = {
    "empty object": {},
    "empty list": [],
    "empty key": {"": ""},
    "100 objects in lists": None,
    "lists in lists": [[], [[]], [[], {}]],
    "nulls": [None, {"null": None}],
    "keys with dots": {"a.b": {"$c": 1}, "__proto__": {}},
}
for _ in range(100):
    STRUCTURES["100 objects in lists"] = [{"in": STRUCTURES["100 objects in lists"]}]

KEY_ORDER: dict[str, Any] = {
    "descending": {"z": 1, "y": 2, "a": 3},
    "by length": {"long key": 1, "k": 2, "ke": {"z": 1, "a": 2}},
    "digits": {"10": 1, "9": 2, "1": 3},
}

LARGE: dict[str, Any] = {
    "a text of 1 MB": "0123456789abcdef" * 65_536,
    "a list of 20,000": list(range(20_000)),
}

BLOCKS: dict[str, dict[str, Any]] = {
    "an unknown type": {"type": "hologram", "depth": 3, "frames": [{"at": 0.5}]},
    "an unknown field": {"type": "text", "text": "seen", "x_trace": {"id": 7}},
}
