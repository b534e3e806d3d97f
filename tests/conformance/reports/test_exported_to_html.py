"""Sessions as a page to read: everything is in it, hidden stretches are folded, nothing runs."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings

from roocontext import Plan
from roocontext.formats import exports
from roocontext.log.entries import MESSAGE_KINDS
from roocontext.reports.html_export import HTML, MASKED_HTML
from support.dialogue import fill, result, text, work
from support.examples import examples
from support.histories import HISTORIES, play

pytestmark = pytest.mark.only("sync")  # as the command line, it reads a synchronous store

_TAGS = """html head meta title style body header nav main section article details summary h1 h2 h3
p ol ul li a b time pre code img span div figure svg line path meter em strong blockquote"""
_ATTRIBUTES = """lang charset http-equiv content name id class dir href datetime src alt aria-label
aria-labelledby data-seq data-kind data-state tabindex title loading rel viewbox role x1 x2 y1 y2 d
min max value high"""
TAGS, ATTRIBUTES = set(_TAGS.split()), set(_ATTRIBUTES.split())
EMPTY = {"meta", "img"}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Page(HTMLParser):
    """Reads a page as a browser does, and refuses what it must not hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, Any]]] = []
        self.ids: dict[str, bool] = {}
        """Each id, and whether it is folded."""
        self.links: list[str] = []
        self.images: list[str] = []
        self.words: dict[str, str] = {}
        self.meta: dict[str, str] = {}
        self.style = ""
        self.feed(page)
        self.close()
        assert self.open == []
        assert {link[1:] for link in self.links if link[0] == "#"} <= set(self.ids)
        assert all(link.startswith(("#", "http://", "https://", "mailto:")) for link in self.links)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        own = dict(attrs)
        assert tag in TAGS
        assert set(own) <= ATTRIBUTES
        if "id" in own:
            assert own["id"] not in self.ids
            self.ids[own["id"]] = any(
                tag == "details" and at.get("class", "").startswith("fold ")
                for tag, at in self.open
            )
        if tag == "a":
            self.links.append(own.get("href", "#s0"))
        elif tag == "img":
            self.images.append(own["src"])
        elif tag == "meta" and "content" in own:
            self.meta[own.get("name") or own["http-equiv"]] = own["content"]
        if tag not in EMPTY:
            self.open.append((tag, own))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.style += data if self.open and self.open[-1][0] == "style" else ""
        for tag, at in self.open:
            if tag == "article":
                self.words[at["id"]] = self.words.get(at["id"], "") + data


def page_of(store: Any, chat: Any, **options: Any) -> Page:
    (file,) = exports.exported_files(store, chat, HTML, **options)
    return Page(b"".join(file.chunks).decode())


@given(history=HISTORIES)
@pytest.mark.one_leg
@settings(max_examples=examples(25))
def test_any_session_is_a_page_with_its_messages(shared, history):
    chat = shared.store.create()
    play(chat, history)
    page = page_of(shared.store, chat)
    folded = {f"s0e{one.seq}": not one.visible for one in chat.audit() if one.kind in MESSAGE_KINDS}
    assert {name: page.ids[name] for name in folded} == folded


HOSTILE = [
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "</pre></article><iframe srcdoc='x'>",
    '" onmouseover="alert(1)',
    "<!--",
    "javascript:alert(1)",
    "\u202e\0\x1b[2J\ud83d\x9b",
    "$title ${style} %s {0}",
]


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_content_is_text(store, words):
    safe = words.replace("\0", "").encode("utf-8", "ignore").decode()
    chat = store.create(title=f"a {safe}")
    chat.set_metadata({"folder": words, words: "x"})
    source = {"type": "base64", "media_type": words, "data": words}
    call = {"type": "tool_use", "id": words, "name": words, "input": {words: words}}
    chat.append("user", words, ts=-1)
    thought = {"type": "thinking", "thinking": words, "signature": words}
    image = {"type": "image", "source": source}
    chat.append("assistant", [thought, text(words), call, {"type": words}], model=f"m{safe}")
    chat.append("user", [result(words, [text(words), image]), image])
    page = page_of(store, chat)
    assert page.images == []
    assert len(page.words) == 3
    if words.isprintable() and words != "<!--":
        assert all(words in shown for shown in page.words.values())


def test_policy_allows_the_style_of_the_page_and_nothing_else(store):
    chat = store.create()
    page = page_of(store, chat)
    digest = b64encode(sha256(page.style.encode()).digest()).decode()
    policy = page.meta["Content-Security-Policy"].split("; ")
    assert policy[:3] == ["default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:"]
    assert not re.search(r"url\(|@import|https?:", page.style)


def test_summaries_and_what_they_stand_for_are_linked(store):
    chat = store.create()
    fill(chat, 5)
    summary = chat.commit(Plan.condense(chat.view(), [2, 3], "S")).seq
    chat.rewind(to=chat.append("user", "go on").seq - 1)
    page = page_of(store, chat)
    assert "Stands for 2–3" in page.words[f"s0e{summary}"]
    assert "The model sees it before entry 4" in page.words[f"s0e{summary}"]
    assert "Replaced by summary 6" in page.words["s0e2"]
    assert {"#s0e2", "#s0e6"} <= set(page.links)
    assert "Taken back by rewind 8" in page.words["s0e7"]


def test_images_are_embedded_if_allowed(store):
    chat = store.create()

    def image(mime: str, data: bytes) -> Any:
        source = {"type": "base64", "media_type": mime, "data": b64encode(data).decode()}
        return {"type": "image", "source": source}

    chat.append(
        "user",
        [
            image("image/png", PNG),
            image("image/png", b"<svg onload=alert(1)>"),
            image("image/svg+xml", PNG),
            image("image/png", PNG + b"\0" * (1 << 20)),
            {"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}},
        ],
    )
    page = page_of(store, chat)
    assert page.images == [f"data:image/png;base64,{b64encode(PNG).decode()}"]
    assert page.words["s0e1"].count("image, image/png") == 2


def test_child_sessions_are_linked(store):
    chat = store.create(title="mother")
    work(chat, ("t1",), "done")
    child = store.create(parent=chat.id, title="child")
    fill(child, 2)
    assert "s1e2" not in page_of(store, chat).ids
    page = page_of(store, chat, family=True)
    assert {"s0", "s1", "s0e2", "s1e2"} <= set(page.ids)
    assert {"#s0", "#s1"} <= set(page.links)


def test_masked_page_has_no_secret_and_says_what_it_masked(store):
    chat = store.create(title="in /home/ann/project", metadata={"cwd": "/home/ann/project"})
    key = "sk-ant-api03-0123456789abcdef"
    chat.append("user", f"the key is {key}, the file /home/ann/project/app.py")
    image = {"type": "base64", "media_type": "image/png", "data": b64encode(PNG).decode()}
    chat.append("user", [{"type": "image", "source": image}])
    chat.append("assistant", "Hi.", model="/home/ann/models/local.gguf")
    chat.append("user", "again")
    chat.rewind(chat.head_seq() - 1, trigger="as /home/ann/project/todo.md says")
    (file,) = exports.exported_files(store, chat, MASKED_HTML)
    page = b"".join(file.chunks).decode()
    assert not {key, "/home/ann", image["data"]} & set(
        re.findall(r"sk-[\w-]+|/home/\w+|iVB\w+", page)
    )
    assert "Masked: 1 API key, 1 image or file, 5 paths." in page
    Page(page)


_DATA = b64encode(PNG).decode()


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("openai", [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_DATA}"}}]),
        ("openai", [{"type": "file", "file": {"file_data": f"data:audio/wav;base64,{_DATA}"}}]),
        ("gemini", [{"inlineData": {"mimeType": "image/png", "data": _DATA}}]),
        ("openai-responses", [{"type": "input_file", "file_data": _DATA}]),
        ("bedrock-converse", [{"image": {"format": "png", "source": {"bytes": _DATA}}}]),
    ],
)
def test_masked_page_has_no_image_or_file_of_any_format(store, form, content):
    chat = store.create()
    rest = {"type": "message"} if form == "openai-responses" else {}
    name = "parts" if form == "gemini" else "content"
    chat.append("user", {"role": "user", **rest, name: content}, format=form)
    (file,) = exports.exported_files(store, chat, MASKED_HTML)
    page = b"".join(file.chunks).decode()
    assert _DATA not in page
    assert Page(page).words["s0e1"]
