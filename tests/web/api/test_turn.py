"""The turn of a session over HTTP: taken, renewed, given back, and carried by what is written."""

import time

import pytest

from support.dialogue import call, fill, text

REPLY = {"type": "message", "id": "m1", "role": "assistant", "stop_reason": "end_turn"}
REPLY |= {"content": [text("x")]}
HELLO = {"role": "user", "content": "Hello"}


def taken(talk, **given):
    answer = talk.post("/turn", given)
    assert answer.status == 201
    return answer.json


def test_turn_is_given_to_one_holder_at_a_time(talk):
    turn = taken(talk, holder="agent 1", lease=30)
    assert (turn["session_id"], turn["holder"]) == (talk.chat.id, "agent 1")
    assert turn["expires_at"].endswith("+00:00")
    answer = talk.post("/turn", {"holder": "agent 2"})
    assert (answer.status, answer.urn, answer.json["holder"]) == (409, "turn-taken", "agent 1")
    assert answer.json["expires_at"] == turn["expires_at"]
    assert turn["token"] not in answer.body.decode()
    with pytest.raises(Exception, match="agent 1 has the turn"), talk.chat.turn():
        pass


def test_turn_ends_with_its_lease(talk):
    first = taken(talk, lease=0.1)
    deadline = time.monotonic() + 30
    while (answer := talk.post("/turn")).status == 409:
        assert time.monotonic() < deadline
    assert answer.json["token"] != first["token"]


@pytest.mark.parametrize("given", [{"lease": 0}, {"lease": 1e9}, {"holder": ""}, {"wait": 1}])
def test_turn_with_a_wrong_option_is_refused(talk, given):
    assert talk.post("/turn", given).status == 422


def test_lease_begins_anew_for_the_holder_alone(talk):
    turn = taken(talk, holder="agent 2", lease=5)
    answer = talk.ask("PUT", "/turn", {"lease": 900}, roocontext_turn=turn["token"])
    assert (answer.status, answer.json["token"]) == (200, turn["token"])
    assert answer.json["expires_at"] > turn["expires_at"]
    # Whoever asks for it learns the new end, and leaves it as it is.
    for _ in range(2):
        refused = talk.post("/turn")
        assert refused.json["expires_at"] == answer.json["expires_at"]
    answer = talk.ask("PUT", "/turn", {}, roocontext_turn="f" * 32)
    assert (answer.status, answer.urn, answer.json["holder"]) == (409, "turn-lost", "agent 2")
    answer = talk.ask("PUT", "/turn", {})
    assert (answer.status, answer.json["name"]) == (400, "Roocontext-Turn")


def test_turn_is_given_back_by_its_holder_alone(talk):
    turn = taken(talk)
    assert talk.ask("DELETE", "/turn", roocontext_turn="f" * 32).status == 200
    assert talk.post("/turn").status == 409
    for _ in range(2):
        answer = talk.ask("DELETE", "/turn", roocontext_turn=turn["token"])
        assert (answer.status, answer.json) == (200, {"session_id": talk.chat.id})
    taken(talk)


class TestChangesInATurn:
    def test_they_are_made_while_it_is_held(self, talk):
        assert talk.post("/entries", HELLO, roocontext_turn=taken(talk)["token"]).status == 201
        assert talk.chat.head_seq() == 1

    def test_none_is_made_after_another_one_took_over(self, talk):
        fill(talk.chat, 4)
        seq = talk.chat.append("assistant", [call("t1")]).seq
        ended = taken(talk)["token"]
        talk.ask("DELETE", "/turn", roocontext_turn=ended)
        taken(talk, holder="agent 2")
        before = talk.chat.info().last_seq
        own = {"seq": seq, "block": 0}
        plan = {"aim": "truncate", "hide": [2, 3]}
        asked = {"unanswered": True, "system": "Be brief."}
        for method, rest, document in (
            *(("POST", "/entries", it) for it in (HELLO, [HELLO, HELLO])),
            *(("POST", "/notes", {"note": "x", "content": {}}), ("POST", "/request", asked)),
            *(("POST", "/record", {"reply": REPLY}), ("POST", "/begin", own)),
            *(("POST", "/answer", {**own, "output": "x"}), ("PUT", "/pins/2", None)),
            *(("PATCH", "", {"title": "x"}), ("POST", "/forks", {})),
        ):
            answer = talk.ask(method, rest, document, roocontext_turn=ended)
            assert (answer.status, answer.urn) == (409, "turn-lost"), rest
            assert answer.json["holder"] == "agent 2"
        head = f'"{talk.chat.head_seq()}"'
        for rest, document in (
            ("/compactions", plan),
            ("/compactions", {"aim": "truncate", "model": "claude-sonnet-4-5", "limit": 1}),
            ("/rewinds", {"to": 2}),
            ("/redactions", {"seq": 2, "dry_run": False}),
        ):
            answer = talk.post(rest, document, if_match=head, roocontext_turn=ended)
            assert answer.status in (409, 422), rest
        assert talk.chat.info().last_seq == before

    def test_others_are_not_kept_from_writing_without_one(self, talk):
        taken(talk)
        assert talk.post("/entries", HELLO).status == 201
