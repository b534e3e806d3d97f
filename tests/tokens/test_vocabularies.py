"""The shipped ranks are OpenAI's, and counting by them is exact on any text, without a network."""

import hashlib
import importlib.util
import lzma
import re
import subprocess
import sys
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from roocontext.tokens import counter_for
from roocontext.tokens.bpe import CL100K, O200K, Vocabulary, read_ranks, unpack
from support.examples import everyday, examples

ROOT = Path(__file__).parents[2]
MILLION = 1_000_000
NAMES = ("o200k_base", "cl100k_base")
SHIPPED = {"o200k_base": O200K, "cl100k_base": CL100K}
ranks_of = cache(read_ranks)
NEVER, ALWAYS = 1 << 31, 2
"""How long a run of blanks must be to be cut out."""


def packing() -> ModuleType:
    """The script that makes the shipped files."""
    spec = importlib.util.spec_from_file_location("pack_ranks", ROOT / "tools" / "pack_ranks.py")
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def rebuilt_text(ranks: dict[bytes, int]) -> bytes:
    """Rebuild OpenAI's text file: a line for each token with its base64 and its rank."""
    return b"".join(b"%b %d\n" % (b64encode(token), rank) for token, rank in ranks.items())


def vocabulary(name: str, longest_run: int) -> Vocabulary:
    made = Vocabulary(name, SHIPPED[name].pattern, longest_run=longest_run)
    made._engines = SHIPPED[name]._load()  # where it cuts is no matter of them
    return made


@pytest.fixture(scope="module")
def engines() -> dict[tuple[str, int], Vocabulary]:
    """Both vocabularies, cutting at nearly every run of blanks and at none."""
    return {(name, cut): vocabulary(name, cut) for name in NAMES for cut in (NEVER, ALWAYS)}


@pytest.mark.parametrize("name", NAMES)
def test_shipped_file_is_the_published_one(name):
    shipped = (ROOT / "roocontext" / "tokens" / f"{name}.xz").read_bytes()
    assert lzma.decompress(shipped) == PACK(list(ranks_of(name)))
    assert hashlib.sha256(rebuilt_text(ranks_of(name))).hexdigest() == packing().SHA256[name]


def test_published_digests_are_checked():
    assert packing().SHA256 == {
        "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    }


PACK = packing().pack


@given(st.lists(st.binary(min_size=1, max_size=255)))
def test_packed_ranks_come_back(tokens):
    assert unpack(PACK(tokens)) == tokens


def test_script_packs_the_ranks_of_a_folder(tmp_path, monkeypatch):
    script, tokens = packing(), [b"!", b"\n", b"ab"]
    text = rebuilt_text({token: rank for rank, token in enumerate(tokens)})
    monkeypatch.setattr(
        script, "SHA256", {name: hashlib.sha256(text).hexdigest() for name in NAMES}
    )
    monkeypatch.setattr(script, "TARGET", tmp_path)
    for name in NAMES:
        (tmp_path / f"{name}.tiktoken").write_bytes(text)
    script.main(tmp_path)
    for name in NAMES:
        assert unpack(lzma.decompress((tmp_path / f"{name}.xz").read_bytes())) == tokens


def test_script_refuses_other_ranks(tmp_path):
    (tmp_path / "o200k_base.tiktoken").write_bytes(b"IQ== 0\n")
    script = ROOT / "tools" / "pack_ranks.py"
    command = [sys.executable, script, tmp_path]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.returncode == 1
    assert "not the file that OpenAI published" in run.stderr


@pytest.mark.parametrize("name", NAMES)
def test_patterns_are_those_of_tiktoken(name, monkeypatch):
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    assert getattr(openai_public, name)()["pat_str"] == SHIPPED[name].pattern


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("tiktoken is great!", 6, 6),
        ("お誕生日おめでとう", 8, 9),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
    ],
)
def test_documented_counts_are_reproduced(text, o200k, cl100k):
    assert (O200K.count(text), CL100K.count(text)) == (o200k, cl100k)


@pytest.mark.parametrize("name", NAMES)
def test_special_tokens_are_plain_text(name):
    assert SHIPPED[name].count("<|endoftext|><|fim_prefix|><|endofprompt|>") > 10


@pytest.mark.parametrize("name", NAMES)
def test_lone_surrogate_counts_like_the_replacement_character(name):
    count = SHIPPED[name].count
    assert count("a\ud800b \udfff") == count("a\ufffdb \ufffd")
    assert count("\ud83d\ude00") == count("\U0001f600")


MILLIONS = [
    ("\t" * MILLION + "a", 62_501, 62_501),
    ("\u3000" * (MILLION // 10), 6_250, 50_000),
    ("\x85" * MILLION, 2 * MILLION, 2 * MILLION),
    ("a" * (MILLION // 5), 25_000, 25_000),
]
MORE_MILLIONS = [
    ("\u3000" * (MILLION // 2), 31_250, 250_000),
    ("a" * MILLION, 125_000, 125_000),
    ("\n" + " " * MILLION, 7_814, 7_814),
    ("\n" * (MILLION // 2), 31_250, 15_625),
    (" " * MILLION, 7_813, 7_813),
    (" " * MILLION + "a", 7_814, 7_814),
    (" " * MILLION + "\n", 7_814, 7_814),
    (" " * MILLION + "\n" + " " * MILLION + "!", 15_628, 15_628),
]


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    everyday(MILLIONS, [*MILLIONS, *MORE_MILLIONS]),
    ids=lambda value: repr(value[:2] + value[-2:]) if isinstance(value, str) else str(value),
)
def test_million_of_anything_is_counted(text, o200k, cl100k):
    assert (O200K.count(text), CL100K.count(text)) == (o200k, cl100k)


PIECES = [" ", "  ", "\t", "\u3000", "\x85", "\u2028", "\n", "\r\n", "\r", "\x1c", "\xa0"]
WORDS = ["a", "B", "1", "!", "/", "'s", "é", "あ", "\U0001f600", "\u0301", "_", "don't", "\ud800"]
TEXTS = st.lists(st.sampled_from(PIECES * 2 + WORDS), max_size=60).map("".join)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(60))
@given(text=TEXTS)
def test_cutting_out_blanks_changes_no_count(engines, name, text):
    assert engines[name, ALWAYS].count(text) == engines[name, NEVER].count(text)


def test_no_token_crosses_from_a_line_break_into_blanks():
    spaces = "".join(map(chr, range(0x2000, 0x200B)))
    blanks = f"\t\v\f \x85\xa0\u1680{spaces}\u2028\u2029\u202f\u205f\u3000".encode()
    for name in NAMES:
        tails = [re.split(rb"[\r\n]", token)[1:] for token in ranks_of(name)]
        assert not [tail for tail in tails if tail and tail[-1] and set(tail[-1]) <= {*blanks}]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(4, long=8))
@given(
    before=TEXTS,
    blank=st.sampled_from([" ", "\t", "\u3000", " \t", "\xa0 "]),
    length=st.integers(50_000, 200_000),
    after=TEXTS,
)
def test_no_token_crosses_from_a_line_break_in_long_runs(
    engines, name, before, blank, length, after
):
    text = before + blank * (length // len(blank)) + after
    assert SHIPPED[name].count(text) == engines[name, NEVER].count(text)


def test_threads_load_a_vocabulary_once():
    shared = Vocabulary("cl100k_base", CL100K.pattern)
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda _: shared._load(), range(8)))
    assert all(engines is loaded[0] for engines in loaded)


def test_vocabulary_needs_no_network_and_no_cache_folder(tmp_path):
    script = """
import socket

def refuse(*_args):
    raise AssertionError("a connection was opened")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from roocontext.tokens import counter_for
print(counter_for("gpt-4o").tokens("hello world"), counter_for("gpt-4").tokens("hello world"))
"""
    environ = {"TIKTOKEN_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environ
    )
    assert run.stdout.split() == ["2", "2"]
    assert list(tmp_path.iterdir()) == []


def test_message_costs_its_role_its_texts_and_its_frame():
    counter = counter_for("gpt-4o")
    assert counter.exact
    assert counter.count("user", "hello world", "anthropic") == 3 + 1 + 2


def test_scaled_counts_are_estimates_and_rounded_up():
    counter = counter_for("claude-opus-5")
    assert not counter.exact
    assert counter.tokens("hello world!") == 5
    assert counter.count("user", "hello world!", "anthropic") == -(-(3 + 1 + 3) * 3 // 2)


def test_long_text_is_counted_once(monkeypatch):
    text = "never counted before " * 2_000
    count = O200K.count(text)
    monkeypatch.setattr(Vocabulary, "_long", None)
    assert O200K.count(text) == count
