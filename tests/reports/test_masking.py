"""Secrets and paths are masked, and everything else stays as it is."""

import json
from typing import Any

import pytest

from roocontext.log.encoding import MAX_DEPTH
from roocontext.reports.masking import Masker, counts_in_words

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "masked", "kind"),
    [
        ("use sk-ant-api03-0123456789abcdef now", "use [API key] now", "API key"),
        ("ghp_0123456789abcdefghij0123", "[API key]", "API key"),
        ("AKIAIOSFODNN7EXAMPLE", "[API key]", "API key"),
        (f"jwt {JWT}", "jwt [token]", "token"),
        ("Authorization: Bearer abcdefghijklmnop123", "Authorization: Bearer [token]", "token"),
        ("postgres://bob:hunter22@db/x", "postgres://[password]@db/x", "password"),
        ("redis://:hunter22@db", "redis://[password]@db", "password"),
        (r'"{\"token\": \"abcdefgh\"}"', r'"{\"token\": \"[secret]\"}"', "secret"),
        (r"password=a\b\cdef", "password=[secret]", "secret"),
        ("DB_PASSWORD=hunter22", "DB_PASSWORD=[secret]", "secret"),
        ('{"api_key": "0123abc456"}', '{"api_key": "[secret]"}', "secret"),
        (f"a {KEY} b", "a [private key] b", "private key"),
        (KEY[:40], "[private key]", "private key"),
        ("in /home/ann/project/src/app.py:3", "in [path]/app.py:3", "path"),
        ("cd /Users/ann", "cd [path]", "path"),
        ("open file:///home/ann/app.py", "open file://[path]/app.py", "path"),
        (r"C:\Users\ann\project\app.py", "[path]/app.py", "path"),
        (r"cd C:\Users\ann", "cd [path]", "path"),
        (r'{"at": "C:\\Users\\ann.lee\\"}', '{"at": "[path]"}', "path"),
    ],
)
def test_secret_is_masked_and_counted(text, masked, kind):
    masker = Masker()
    assert masker.text(text) == masked
    assert masker.counts == {kind: 1}


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 4096, tokens = 12",
        "src/app.py and ./home/x and a/b",
        "https://example.org/home/page",
        "the password is wrong",
        "sk-learn",
        "and/or 1/2",
    ],
)
def test_ordinary_text_is_not_masked(text):
    masker = Masker()
    assert masker.text(text) == text
    assert not masker.counts


def test_values_are_masked_to_any_depth():
    masker = Masker()
    image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    value = [{"a": ["token=abcdefgh", 1, True, None]}, {"source": image}]
    masked = masker.value(value)
    assert masked[0] == {"a": ["token=[secret]", 1, True, None]}
    assert masked[1]["source"]["data"] == ""
    assert counts_in_words(masker.counts) == "1 image or file, 1 secret"


def test_content_as_deep_as_the_store_allows_is_masked():
    value: Any = "token=abcdefgh"
    for level in range(MAX_DEPTH):
        value = {"a": value} if level % 2 else [value]
    masker = Masker()
    assert json.dumps(masker.value(value)).count("token=[secret]") == 1


def test_field_is_masked_by_its_name():
    masker = Masker()
    value = {"password": "correct horse", "api_key": {"secret": "hunter22"}, "max_tokens": "4096"}
    assert masker.value(value) == {
        "password": "[secret]",
        "api_key": {"secret": "[secret]"},
        "max_tokens": "4096",
    }
    assert masker.counts == {"secret": 2}


def test_fields_whose_names_are_masked_are_all_kept():
    value = {"/home/ann/a/x.py": 1, "/home/ann/b/x.py": 2}
    assert [*Masker().value(value).values()] == [1, 2]


def test_long_texts_are_masked_in_linear_time():
    masker = Masker()
    masker.text("a-" * 100_000)
    masker.text("/home" * 40_000)
    masker.text("eyJ" * 60_000)
    masker.text("C:" + "\\" * 100_000)
    assert sum(masker.counts.values()) <= 1
