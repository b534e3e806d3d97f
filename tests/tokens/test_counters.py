"""Every counter counts every format, and the estimates keep the quirks of their programs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roocontext.errors import RooContextError, UnknownPlugin
from roocontext.programs.gemini_cli import counter as gemini
from roocontext.registry import Registry
from roocontext.tokens import Budget, Size, counter_for, counters, size_of
from roocontext.tokens.usage import IMAGES, split_message

ROOT = Path(__file__).parents[2]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
MESSAGES = [
    ("user", "words", "anthropic"),
    ("user", [], "anthropic"),
    ("user", [{"type": "text", "text": "words"}, IMAGE], "anthropic"),
    ("user", [{"type": "tool_result", "tool_use_id": "t", "content": "out"}], "anthropic"),
    ("user", [{"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}], "anthropic"),
    ("user", [{"type": "tool_result", "content": ["odd", None]}], "anthropic"),
    ("assistant", [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}], "anthropic"),
    ("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}], "anthropic"),
    ("assistant", [{"type": "text", "text": 5}, {"type": "tool_use"}], "anthropic"),
    ("user", [{"type": "image"}, {"type": "image", "source": {"data": 5}}], "anthropic"),
    ("user", [{"type": "never seen", "x": [1.0]}], "anthropic"),
    ("user", "\ud800 <|endoftext|> \0", "anthropic"),
    ("system", {"role": "system", "content": "be brief"}, "openai"),
    ("assistant", {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}, "openai"),
    ("tool", {"role": "tool", "tool_call_id": "1", "content": "out"}, "openai"),
    ("user", {"role": "user", "parts": [{"text": "words"}]}, "gemini"),
    ("user", {"role": "user", "parts": [{"functionResponse": "odd"}, {"text": 5}]}, "gemini"),
    ("user", {"role": "user", "parts": [{"inlineData": {"mimeType": 5}}, {}]}, "gemini"),
    ("model", {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}, "gemini"),
    ("user", {"role": "user"}, "gemini"),
]
BUILT_IN = [
    *("bytes", "characters*1.5", "chatgpt", "cl100k_base", "claude", "codex", "gemini"),
    *("gemini-0.61", "gpt", "gpt-3.5", "gpt-35", "gpt-4", "images", "multi_llm_chat"),
    *("multi_llm_chat-tools", "o1", "o200k_base", "o200k_base*1.5", "o3", "o4", "opencode"),
    *("opencode-upstream", "roo"),
]


def test_built_in_counters_are_listed():
    assert set(BUILT_IN) <= set(counters.known())


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_counter_counts_every_message(name):
    counter = counter_for("some-model", name=name)
    for role, content, form in MESSAGES:
        before = json.dumps(content)
        total = counter.count(role, content, form)
        assert type(total) is int, content
        assert total >= 0, content
        assert json.dumps(content) == before


def test_more_text_never_costs_less():
    for name in {*BUILT_IN} - {"images"}:
        counter = counter_for("some-model", name=name)
        costs = [counter.count("user", "many words " * times, "anthropic") for times in range(8)]
        assert costs == sorted(costs), name
        assert costs[0] < costs[-1], name


MODELS = {
    "o200k_base": [
        *("gpt-4o-2024-08-06", "openai/gpt-4.1-mini", "gpt-5.5-pro", "ft:gpt-4o:acme::id"),
        *("o3-mini", "chatgpt-4o-latest"),
    ],
    "cl100k_base": ["gpt-4", "GPT-4-0613", "gpt-3.5-turbo"],
    "o200k_base*1.5": ["claude-opus-5", "us.anthropic.claude-sonnet-4-6-v1:0"],
    "gemini": ["models/gemini-2.5-pro"],
    "opencode-upstream": ["opencode-upstream"],
    "multi_llm_chat": ["never-heard-of", ""],
}


@pytest.mark.parametrize(
    ("model", "name"), [(model, name) for name, models in MODELS.items() for model in models]
)
def test_counter_follows_from_the_model(model, name):
    assert counter_for(model).name == name


def test_only_openai_and_plain_facts_are_exact():
    made = [counter_for("m", name=name) for name in BUILT_IN]
    exact = {counter.name for counter in made if counter.exact}
    assert exact == {"bytes", "images", "o200k_base", "cl100k_base"}


def test_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(UnknownPlugin, match="o200k_base") as refused:
        counter_for("gpt-4o", name="abacus")
    assert (refused.value.name, "o200k_base" in refused.value.known) == ("abacus", True)
    assert isinstance(refused.value, LookupError)
    assert isinstance(refused.value, RooContextError)


PLUGIN = """
class Abacus:
    name = "abacus"
    exact = False
    def count(self, role, content, format):
        return 42
def make(model, client):
    return Abacus()
"""


@pytest.fixture
def plugin(tmp_path):
    """An installed package that offers a counter for a family of models."""
    (tmp_path / "abacus_plugin.py").write_text(PLUGIN)
    info = tmp_path / "abacus-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[roocontext.counters]\nacme = abacus_plugin:make\n")
    return tmp_path


def test_plugin_is_found_by_its_entry_point(plugin, monkeypatch):
    monkeypatch.syspath_prepend(plugin)
    registry = Registry("roocontext.counters")
    assert "acme" in registry.known()
    assert "acme" not in registry
    assert registry["acme"]("acme-9", None).count("user", "x", "anthropic") == 42
    assert "acme" in registry
    with pytest.raises(UnknownPlugin):
        registry["nobody"]


def printed(script, path):
    """What a script prints in a process of its own."""
    environ = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    return run.stdout.split()


def test_plugin_counts_for_its_models_without_an_edit(plugin):
    script = "from roocontext.tokens import counter_for; print(counter_for('acme-9-large').name)"
    assert printed(script, f"{plugin}{os.pathsep}{ROOT}") == ["abacus"]


def test_later_registration_replaces_the_earlier():
    registry: Registry[int] = Registry("roocontext.nothing")
    registry.register("one", 1)
    registry.register("one", 2)
    assert registry["one"] == 2
    assert registry.first(["none", "one"]) == "one"
    assert registry.first(["none"]) is None


def test_importing_loads_neither_engine_nor_sdk():
    script = """
import sys
import roocontext.tokens
heavy = {"tiktoken", "anthropic", "regex", "requests", "httpx2", "sqlalchemy", "alembic"}
print(sorted(heavy & set(sys.modules)))
print([name for name in sys.modules if name.startswith("roocontext.store")])
"""
    assert printed(script, ROOT) == ["[]", "[]"]


@given(st.lists(st.text(st.characters(exclude_categories=())), max_size=4))
def test_gemini_is_the_naive_sum(texts):
    total = 0.0
    for text in texts:
        paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        for character in paired:
            total += 0.25 if ord(character) < 128 else 1.3
    assert gemini.estimate([{"text": text} for text in texts]) == int(total)


def test_gemini_0_61_knows_files_long_texts_and_nested_parts():
    estimate = gemini.estimate_0_61
    pdf = {"fileData": {"mimeType": "application/pdf", "fileUri": "x"}}
    image = {"inlineData": {"mimeType": "image/png", "data": "A" * 1_000_000}}
    assert (estimate([pdf]), estimate([image])) == (25_800, 3_000)
    assert estimate([{"text": "漢" * 100_000}]) == 150_000
    assert estimate([{"text": "漢" * 100_001}]) == 25_000
    assert estimate([{"functionResponse": {"name": "abcd", "parts": [image]}}]) == 3_001
    assert estimate([{"functionResponse": {"name": "abcd", "parts": ["x", None, image]}}]) == 3_001
    deep = image
    for _ in range(4):
        deep = {"functionResponse": {"parts": [deep]}}
    assert estimate([deep]) == 0


@given(st.text())
def test_characters_cost_half_as_much_again(text):
    counted = counter_for("", name="characters*1.5").count("user", text, "anthropic")
    assert counted == (3 * len(text) + 1) // 2


def test_images_in_tool_outputs_are_counted():
    content = [IMAGE, {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE, IMAGE]}]
    assert IMAGES.count("user", content, "anthropic") == 3
    assert split_message("user", content, "anthropic").texts == ()


def test_budget_says_what_is_exceeded_and_by_how_much():
    budget = Budget(tokens=100, bytes=1_000, images=2)
    assert budget.exceeded_by(Size(100, 1_000, 2)) == {}
    assert budget.exceeded_by(Size(101, 2_000, 3)) == {"tokens": 1, "bytes": 1_000, "images": 1}
    assert budget.exceeded_by(Size(0, 0, 5)) == {"images": 3}
    assert Budget().exceeded_by(Size(10**9, 10**9, 10**9)) == {}
    with pytest.raises(AttributeError):
        budget.tokens = 5


def test_size_of_a_message_counts_bytes_and_images():
    content = [{"type": "text", "text": "hello world"}, IMAGE]
    size = size_of(counter_for("opencode"), "user", content)
    assert size == Size(3, len(json.dumps(content, separators=(",", ":"))), 1)
    assert size.plus(Size(1, 1, 1)) == Size(size.tokens + 1, size.bytes + 1, size.images + 1)
