"""Replies in the text protocol: the same however they are cut, and nothing of the protocol for people."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.llm.plain_reader import PlainReader
from stepagent.llm.prompt_reader import PromptReader
from stepagent.llm.reply import RequestedCall, Said, TextReader
from tests.builders import Heard

OFFERED = frozenset({"search", "ping"})
CALL = '{"toolId":"search","arguments":{"q":"x"}}'
LONG = "word " * 399  # 1,995 characters


def read_with(reader: TextReader, heard: Heard, pieces: list[str]) -> Said:
    for piece in pieces:
        reader.feed(piece)
    said = reader.close()
    assert "".join(heard.texts) == said.text
    assert "".join(heard.reasonings) == said.reasoning
    assert all([*heard.texts, *heard.reasonings])
    return said


def read(*pieces: str) -> Said:
    heard = Heard()
    return read_with(PromptReader(heard, OFFERED), heard, list(pieces))


def read_plainly(*pieces: str) -> Said:
    heard = Heard()
    return read_with(PlainReader(heard), heard, list(pieces))


def heard_before_the_end(*pieces: str) -> str:
    heard = Heard()
    reader = PromptReader(heard, OFFERED)
    for piece in pieces:
        reader.feed(piece)
    return "".join(heard.texts)


def call_in(said: Said) -> tuple[str, Any]:
    assert said.call
    return said.call.name, json.loads(said.call.arguments)


ANSWERS = [
    ("0: Good morning", "Good morning"),
    ("0：Good morning", "Good morning"),
    ("  0:   padded  ", "padded"),
    ("\t0:\tTabbed\t", "Tabbed"),
    ("\ufeff\n 0 : spaced", "spaced"),
    ("\u00a0\ufeff0: x", "x"),
    ("0：10:30 works", "10:30 works"),
    ("0: the train leaves at 11:30", "the train leaves at 11:30"),
    ("0: 1: 2", "1: 2"),
    ("plain text", "plain text"),
    ("98765", "98765"),
    ("10:30", "10:30"),
    ("1. item", "1. item"),
    ("0.5", "0.5"),
    ("1", "1"),
    ("0 ", "0"),
    ("1\n: x", "1\n: x"),
    ("At 10:30 we meet", "At 10:30 we meet"),
    ("The ratio is 1:2", "The ratio is 1:2"),
    ("Row A\n0: next", "Row A\n0: next"),
    ("Row A\n1: next", "Row A\n1: next"),
    (CALL, CALL),
    (f"An example: 1: {CALL}", f"An example: 1: {CALL}"),
    (f"0: 1: {CALL}", f"1: {CALL}"),
    ('0: So:\n1: {"toolId":"other"}\nDone.', 'So:\n1: {"toolId":"other"}\nDone.'),
    ("0: So:\n1: {x | x > 1}\nDone.", "So:\n1: {x | x > 1}\nDone."),
    ('0: So:\n1: {"toolId":"search"', 'So:\n1: {"toolId":"search"'),
    ("0: Use <think> and </think>.", "Use <think> and </think>."),
    ("Use <think> and </think>.", "Use <think> and </think>."),
    ("a < b", "a < b"),
    ("<thin", "<thin"),
    (LONG + "12345</think>0: x", LONG + "12345</think>0: x"),
    ("", ""),
    (" \n\ufeff", ""),
    ("0:", ""),
]
CALLS: list[tuple[str, str, Any]] = [
    (f"1: {CALL}", "search", {"q": "x"}),
    (f"1：{CALL}", "search", {"q": "x"}),
    (f"\ufeff\n\n  1 : {CALL}\n", "search", {"q": "x"}),
    ("1: {toolId:'weather',arguments:{city:'Oslo',}}", "weather", {"city": "Oslo"}),
    ('1: {"toolId":"ping", /* c */ "arguments":{}}', "ping", {}),
    (f"1:\n```json\n{CALL}\n```", "search", {"q": "x"}),
    (f"1: I will search. {CALL}", "search", {"q": "x"}),
    (f"1: [{CALL}]", "search", {"q": "x"}),
    ('1: {"toolId":"ping","arguments":{"t":"a}b"}}', "ping", {"t": "a}b"}),
    ('1: {"toolId":"ping"}', "ping", {}),
    ('1: {"name":" ping "}', "ping", {}),
    ('1: {"toolId":"ping","arguments":null}', "ping", {}),
    ('1: {"toolId":"ping","parameters":{"a":1}}', "ping", {"a": 1}),
    ('1: {"toolId":"ping","arguments":"{\\"a\\":1}"}', "ping", {"a": 1}),
    ('1: {"toolId":"ping","arguments":{"n":12345678901234567890123}}', "ping", {"n": 12345678901234567890123}),
    (f'1: {CALL} … 1: {{"toolId":"ping"}}', "search", {"q": "x"}),
    (f"1: {CALL}\nResult of search:\n42\n0: It costs 42.", "search", {"q": "x"}),
    ("1：{“toolId”：“search”，“arguments”：{“q”：“天气，北京”}}", "search", {"q": "天气，北京"}),
    ('1: {"toolId":"unknown"}', "unknown", {}),
]
PREAMBLES = [
    (f"0: I look first.\n1: {CALL}", "I look first."),
    (f"I look first.\n\n1：{CALL}\nResult: 42", "I look first."),
    (f"0:\n 1 :\n```json\n{CALL}\n```", ""),
    (f'0: So:\n1: {{"toolId":"other"}}\n1: {CALL}', 'So:\n1: {"toolId":"other"}'),
    (f"0: So:\n1: {{\n1: {CALL}", "So:\n1: {"),
    (f"{LONG}\n{LONG}\n1: {CALL}", f"{LONG}\n{LONG}".strip()),
]
BROKEN = [
    '1: {"toolId":"ping"',
    "1: {}",
    "1:",
    "1: None",
    "1: 无需调用工具",
    '1: {"toolId":"","arguments":{}}',
    '1: {"toolId":7}',
    "1: [1]",
    "1: {a b}",
    "1:2 is the ratio",
    "1: " + "[" * 100_000,
    '1: {"a":' * 50_000,
]
REASONED = [
    ("<think>Hm.</think>\n\n0: Hi", "Hm.", "Hi"),
    ("\n<thinking>\nHm: 1: 2\n</thinking>Hi", "Hm: 1: 2", "Hi"),
    ("<think>a</think> <think>b</think>Hi", "a\nb", "Hi"),
    ("<think>never closed", "never closed", ""),
    ("<think>a </thin b</think>0: Hi", "a </thin b", "Hi"),
    ("Hm: 1: 2\n</think>\n0: Hi", "Hm: 1: 2", "Hi"),
    ("</think>Hi", "", "Hi"),
    ("10 apples</thinking>\n10:30", "10 apples", "10:30"),
    (f"I could\n1: {CALL}\n</think>0: Hi", f"I could\n1: {CALL}", "Hi"),
    ("<think>Hm.</think>Use </think> so.", "Hm.", "Use </think> so."),
]
EXAMPLES = [*(row[0] for row in (*ANSWERS, *CALLS, *PREAMBLES, *REASONED)), *BROKEN[:-2]]

# Whatever a reply in the protocol is made of, and what looks like it.
PARTS = ["0:", "1:", "1：", "0", "1", "10:30", " ", "\n", "\t", "\ufeff", "```", "```json\n", "{", "}", '"', "`", ":"]
PARTS += ["<think>", "</think>", "<thinking>", "</thinking>", "<th", "</", ">", CALL, '{"toolId":"other"}', LONG]
PARTS += ["x", "天气", "\n1: {", '"toolId":"search"', "'", ",", "/*", "*/", "“", "｛", '\\"', f"\n1: {CALL}"]
replies = st.lists(st.sampled_from(PARTS), max_size=12).map("".join) | st.text() | st.sampled_from(EXAMPLES)


@pytest.mark.parametrize(("reply", "text"), ANSWERS)
def test_reply_is_an_answer_when_no_call_leads_it(reply: str, text: str) -> None:
    assert read(reply) == Said(text, "")


@pytest.mark.parametrize(("reply", "name", "arguments"), CALLS)
def test_reply_is_a_call_when_its_prefix_leads(reply: str, name: str, arguments: Any) -> None:
    said = read(reply)
    assert call_in(said) == (name, arguments)
    assert said == Said("", "", said.call)


@pytest.mark.parametrize("arguments", ["", "Oslo", "12 apples"])
def test_text_in_place_of_arguments_is_left_to_whoever_checks_them_when_it_is_no_json(arguments: str) -> None:
    said = read(f"1: {json.dumps({'toolId': 'ping', 'arguments': arguments})}")
    assert said.call == RequestedCall("", "ping", arguments)


@pytest.mark.parametrize(("reply", "preamble"), PREAMBLES)
def test_answer_ends_in_a_call_when_a_line_calls_an_offered_tool(reply: str, preamble: str) -> None:
    said = read(reply)
    assert call_in(said) == ("search", {"q": "x"})
    assert said == Said(preamble, "", said.call)


@pytest.mark.parametrize("reply", BROKEN)
def test_model_is_told_the_rule_when_a_call_cannot_be_read(reply: str) -> None:
    said = read(reply)
    assert said.correction
    assert said == Said("", "", correction=said.correction)
    assert said.correction.said[:500] == reply[:500]
    assert len(said.correction.said) <= 501
    assert "toolId" in said.correction.rule


@pytest.mark.parametrize(("reply", "reasoning", "text"), REASONED)
def test_reasoning_is_kept_apart_when_it_leads(reply: str, reasoning: str, text: str) -> None:
    assert read(reply) == Said(text, reasoning)


def test_call_is_read_when_reasoning_leads_it() -> None:
    said = read(f"<think>I need 1: a tool.</think>1: {CALL}")
    assert (said.reasoning, call_in(said)) == ("I need 1: a tool.", ("search", {"q": "x"}))


@pytest.mark.parametrize("reply", EXAMPLES)
def test_reply_is_the_same_when_it_comes_character_by_character(reply: str) -> None:
    assert read(*reply) == read(reply)


@given(replies, st.data())
def test_reply_is_the_same_however_it_is_cut(reply: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(reply)), max_size=8)))
    pieces = [reply[start:end] for start, end in zip([0, *cuts], [*cuts, len(reply)], strict=True)]
    assert read(*pieces) == read(reply) == read(*reply)


@given(replies, st.data())
def test_plain_reply_is_the_same_however_it_is_cut(reply: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(reply)))
    assert read_plainly(reply[:cut], reply[cut:]) == read_plainly(reply) == read_plainly(*reply)


clean = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"])).map(str.strip)


@given(
    lead=st.sampled_from(["", "\ufeff", " \n", "<think>Hm.</think>\n", "Hm.</think>"]),
    prefix=st.sampled_from(["0:", "0：", " 0 : "]),
    answer=clean,
    follow=st.sampled_from(["", "\n", f"\n1: {CALL}", f"\n  1：\n{CALL}\n0: made up"]),
)
def test_nothing_but_the_answer_is_heard_whatever_stands_around_it(
    lead: str, prefix: str, answer: str, follow: str
) -> None:
    said = read(*f"{lead}{prefix}{answer}{follow}")
    assert said.text == answer
    assert bool(said.call) is ("1" in follow)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["0"], ""),
        (["0", ":"], ""),
        (["0: Hel"], "Hel"),
        (["0: Hello "], "Hello"),
        (["0: Hello ", "you"], "Hello you"),
        (["0: a\n"], "a"),
        (["0: a\n1"], "a"),
        (["0: a\n1: "], "a"),
        (["0: a\n1: ", "b"], "a\n1: b"),
        (["0: a\n", CALL], f"a\n{CALL}"),
        (["0: a\n1: {", "x}", " b"], "a\n1: {x} b"),
        (["0: a\n1: {", "x " * 40], "a\n1: {" + ("x " * 40).strip()),
        (['0: a\n1: {"toolId":"other"}', " b"], 'a\n1: {"toolId":"other"} b'),
        (['0: a\n1: {"toolId":"sea'], "a"),
        (["<think>a</think>b"], "b"),
        (["no prefix"], ""),
        ([LONG], ""),
        ([LONG, "12345"], f"{LONG}12345"),
        (["1: anything"], ""),
    ],
)
def test_no_more_is_held_back_than_may_be_protocol_while_a_reply_comes(pieces: list[str], text: str) -> None:
    assert heard_before_the_end(*pieces) == text


def test_reasoning_is_heard_while_it_comes() -> None:
    heard = Heard()
    reader = PromptReader(heard, OFFERED)
    for piece in ("<thi", "nk>One", " two", "</th"):
        reader.feed(piece)
    assert heard.reasonings == ["One", " two"]


@pytest.mark.parametrize(
    ("reply", "reasoning", "text"),
    [
        ("0: as it is ", "", "0: as it is "),
        (f"1: {CALL}", "", f"1: {CALL}"),
        ("  lead", "", "  lead"),
        ("a</think>b", "", "a</think>b"),
        ("\n<think>\na\n</think>\n\nb\n", "a", "b\n"),
        ("<thinking>a</thinking><think>b</think>c", "a\nb", "c"),
        ("<think>a", "a", ""),
        (" <thin", "", " <thin"),
        ("x <think>a</think>", "", "x <think>a</think>"),
    ],
)
def test_plain_text_is_unchanged_except_reasoning_when_it_leads(reply: str, reasoning: str, text: str) -> None:
    assert read_plainly(reply) == Said(text, reasoning)


@pytest.mark.parametrize(
    "reply",
    [
        "0: " + "word and " * 22_000,
        "no prefix " * 20_000,
        "0: x" + "\n1: {" * 40_000,
        "0: x\n1: {" + '"{}":{},' * 25_000,
        "0: x" + '\n1: {"a": "' * 20_000,
        '1: {"toolId":"ping","arguments":{' + ",".join(f'"a{n}":{n}' for n in range(16_000)) + "}}",
        "1" + " " * 200_000,
        "0: x" + " \n" * 100_000,
        "<think>" + "<" * 200_000,
        "<think></think>" * 13_000,
    ],
    ids=lambda reply: reply[:16],
)
def test_time_is_linear_when_a_long_reply_comes_character_by_character(reply: str) -> None:
    started = time.perf_counter()
    read(*reply)
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize("before", ["0: ", "0:", "0：\n", "0:  "])
def test_call_is_a_call_when_it_is_marked_as_an_answer_and_stands_alone(before: str) -> None:
    said = read(before + CALL)
    assert (said.text, said.call) == ("", RequestedCall("", "search", '{"q": "x"}'))


@pytest.mark.parametrize("text", ['{"toolId": "unknown"}', '{"total": 3}', '{"toolbox": 1}', "{", '{"toolId'])
def test_object_of_an_answer_is_text_when_it_is_no_call_of_an_offered_tool(text: str) -> None:
    said = read(*f"0: {text}")
    assert (said.text, said.call) == (text, None)
