"""Answers in a form: what is taken, what is corrected, and what a run says of one that never fits."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.answer_form import AnswerForm
from stepagent.errors import ModelBusy, ModelReplyUnusable
from stepagent.llm.ask import Wishes, _requests
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import ModelRequest, Reply, RequestedCall
from stepagent.llm.tool_choice import ToolChoice
from stepagent.messages import AssistantMessage, UserMessage
from stepagent.runs import Run, StopReason, TurnRecord
from stepagent.tool_specs import ToolSpec
from stepagent.turn import run_turn
from stepagent.usage import Usage
from tests.builders import a_run, a_tool

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OBJECT, FORM = AnswerForm(), AnswerForm(name="thing", json_schema=SCHEMA)
ONE = Usage(input_tokens=1, output_tokens=1)


@pytest.mark.parametrize("text", ['{"a":1}', ' {"a": 1}\n', '```json\n{"a": 1}\n```', '```\n{"a": 1}\n```\n'])
def test_answer_is_read_when_it_fits(text: str) -> None:
    assert json.loads(FORM.read(text)) == {"a": 1}


@pytest.mark.parametrize(
    ("form", "text", "why"),
    [
        (FORM, "", "not valid JSON"),
        (FORM, 'Here: {"a": 1}', "not valid JSON"),
        (FORM, '{"a": 1', "not valid JSON"),
        (FORM, '{"a": NaN}', "not valid JSON"),
        (FORM, "{}", "'a' is a required property"),
        (FORM, '{"a": "1"}', "$.a"),
        (FORM, "[" * 100_000, "deep"),
        (OBJECT, "[1]", "not a JSON object"),
        (OBJECT, "null", "not a JSON object"),
    ],
)
def test_answer_is_refused_with_the_reason_when_it_does_not_fit(form: AnswerForm, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        form.read(text)


def test_schema_that_refers_to_another_server_is_not_fetched() -> None:
    form = AnswerForm(json_schema={"$ref": "http://127.0.0.1:9/schema"})
    with pytest.raises(ValueError, match="cannot be followed"):
        form.read("1")


def test_any_json_is_an_answer_when_its_schema_allows_it() -> None:
    assert AnswerForm(json_schema={"type": "array"}).read("[1]") == "[1]"


def doubling(word: str) -> dict[str, Any]:
    """A schema that is followed 2 ** 60 times."""
    steps: dict[str, Any] = {f"s{n}": {word: [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(60)}
    return {"$defs": {**steps, "s60": {"type": "string"}}, "$ref": "#/$defs/s0"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "no type"}, "'no type'"),
        ({"properties": []}, "properties"),
        ({"enum": ["x" * 70_000]}, "64000"),
        ({"pattern": "("}, "regex"),
        ({"pattern": "(?=a)"}, "looks around"),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, "looks around"),
        ({"pattern": "((a{1,500}){1,500}){1,500}"}, "too large"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "leads to no schema"),
        ({"$ref": "#/$defs/a"}, "leads to no schema"),
        ({"$ref": "#a"}, "leads to no schema"),
        ({"$ref": "#/allOf/x", "allOf": [{}]}, "leads to no schema"),
        ({"$ref": "#/title", "title": "a"}, "leads to no schema"),
        ({"properties": {"a": {"$id": "http://a"}}}, "$id"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, "at its top"),
        ({"$dynamicRef": "#"}, "$dynamicRef"),
        ({"patternProperties": {"^a": {}}}, "patternProperties"),
        ({"unevaluatedProperties": False}, "unevaluatedProperties"),
    ],
)
def test_form_has_a_flaw_when_its_schema_cannot_be_followed(schema: dict[str, Any], why: str) -> None:
    assert why in (AnswerForm(json_schema=schema).flaw or "")


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        {**SCHEMA, "$schema": "http://json-schema.org/draft-07/schema#"},
        {"$defs": {"a": {"pattern": r"^\d{4}-\w+$"}}, "items": {"$ref": "#/$defs/a"}},
        {"type": "object", "properties": {"next": {"$ref": "#"}, "pattern": {"type": "string"}}},
        {"type": "object", "properties": {"$id": {"type": "string"}, "$schema": {}, "$ref": {"type": "string"}}},
    ],
)
def test_form_has_no_flaw_when_its_schema_is_as_clients_make_them(schema: dict[str, Any]) -> None:
    assert AnswerForm(json_schema=schema).flaw is None


def test_schema_is_followed_to_where_it_leads_when_it_names_another_dialect() -> None:
    form = AnswerForm(
        json_schema={
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": {"$ref": "#/$defs/a"},
            "$defs": {"a": {"type": "string"}},
        }
    )
    with pytest.raises(ValueError, match="not of type 'string'"):
        form.read("[1]")


HOSTILE: dict[str, tuple[dict[str, Any], str, str]] = {  # a schema, an answer, and why that is refused
    "tried in many ways": ({"pattern": "^(a+)+$"}, json.dumps("a" * 40 + "!"), "does not match"),
    "tried in two ways": ({"pattern": "^(a|a)*$"}, json.dumps("a" * 40 + "!"), "does not match"),
    "all of doubled": (doubling("allOf"), '"a"', "too much work"),
    "any of doubled": (doubling("anyOf"), "1", "too much work"),
    "one of doubled": (doubling("oneOf"), "1", "too much work"),
    "itself": ({"$ref": "#"}, "1", "cannot be followed"),
    "itself doubled": ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "1", "cannot be followed"),
    "number too large": ({"multipleOf": 0.1}, "1" + "0" * 400, "cannot be followed"),
    "reference to nothing": ({"$ref": "#/$defs/a"}, "1", "cannot be followed"),
    "reference to a number": ({"$ref": "#/maximum", "maximum": 5}, "1", "cannot be followed"),
    "names tried": ({"patternProperties": {"^(a+)+$": {}}}, json.dumps({"a" * 40 + "!": 1}), "cannot be followed"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_answer_is_refused_in_time_whatever_its_schema_asks_for(name: str) -> None:
    schema, text, why = HOSTILE[name]
    with pytest.raises(ValueError, match=why):
        AnswerForm(json_schema=schema).read(text)


@pytest.mark.parametrize("items", ["[1, true]", '[[1], ["1"]]', '[{"a": 1}, {"a": 2}]', "[0, false]", '["1", 1]'])
def test_items_are_unique_when_json_schema_says_so(items: str) -> None:
    assert AnswerForm(json_schema={"uniqueItems": True}).read(items) == items


@pytest.mark.parametrize("items", ["[1, 1.0]", '[{"a": 1, "b": 2}, {"b": 2, "a": 1}]', "[[true], [true]]"])
def test_items_are_not_unique_when_json_schema_says_so(items: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        AnswerForm(json_schema={"uniqueItems": True}).read(items)


def test_many_items_are_compared_in_time() -> None:
    items = json.dumps([{"a": n} for n in range(20_000)])
    assert AnswerForm(json_schema={"uniqueItems": True}).read(items) == items


def test_form_of_the_record_is_read_whatever_was_taken_before() -> None:
    assert AnswerForm.model_validate({"json_schema": {"type": "no type"}}).flaw


@given(st.text())
def test_text_is_read_or_refused_whatever_it_is(text: str) -> None:
    try:
        value = json.loads(OBJECT.read(text))
    except ValueError:
        return
    assert isinstance(value, dict)


JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA}}


@pytest.mark.parametrize(
    ("form", "taken", "sent"),
    [
        (FORM, "none", None),
        (FORM, "object", {"type": "json_object"}),
        (FORM, "schema", JSON_SCHEMA),
        (OBJECT, "schema", {"type": "json_object"}),
        (AnswerForm(json_schema={"type": "array"}), "object", None),
    ],
)
def test_field_of_the_request_is_what_the_model_takes(form: AnswerForm, taken: Any, sent: Any) -> None:
    assert form.request_field(taken).get("response_format") == sent


@pytest.mark.parametrize(("tools", "sent"), [((), True), ((a_tool(),), False)])
def test_field_is_sent_only_when_no_tool_is_offered(tools: tuple[ToolSpec, ...], sent: bool) -> None:
    model = ModelSpec(name="m", provider_model="m", base_url="http://127.0.0.1:9", response_format="schema")
    request = ModelRequest("", [UserMessage(text="Hi")], tools, form=FORM)
    fields = next(_requests(model, ToolChoice(model), request, Wishes()))
    assert ("response_format" in fields) == sent


class Model:
    """Replies one after the other, and what it was asked. Stands for a model."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def says(text: str, **more: Any) -> Reply:
    usual: dict[str, Any] = {"reasoning": "", "calls": (), "finish_reason": "stop", "usage": ONE}
    return Reply(text=text, **usual | more)


def a_formed_run(**changes: Any) -> Run:
    run = a_run(**changes)
    return run.model_copy(update={"agent": run.agent.model_copy(update={"answer_form": FORM})})


def turn_with(model: Model, turn: int = 1, run: Run | None = None) -> TurnRecord:
    return run_turn(run or a_formed_run(), turn, [UserMessage(text="Hi")], model)


def answer_of(record: TurnRecord) -> str:
    assert record.outcome
    return record.outcome.answer


def test_model_is_told_the_form_when_one_is_wanted() -> None:
    model = Model(says('{"a": 1}'))
    turn_with(model)
    assert json.dumps(SCHEMA) in model.requests[0].system


def test_answer_that_fits_is_said_and_stored_without_its_fence() -> None:
    record = turn_with(Model(says('```json\n{"a": 1}\n```')))
    assert (answer_of(record), record.unsaid) == ('{"a": 1}', '{"a": 1}')


def test_answer_is_corrected_once_and_without_tools_when_it_does_not_fit() -> None:
    model = Model(says("one"), says('{"a": 1}'))
    record = turn_with(model)
    asked = model.requests[1]
    assert (answer_of(record), asked.tools, record.usage) == ('{"a": 1}', (), ONE + ONE)
    assert asked.messages[-2] == AssistantMessage(text="one")


def test_run_fails_and_counts_all_that_was_spent_when_the_correction_does_not_fit() -> None:
    with pytest.raises(ModelReplyUnusable, match="twice") as failed:
        turn_with(Model(says("one"), says("two")))
    assert failed.value.usage == ONE + ONE


def test_what_was_spent_counts_when_the_correction_comes_to_nothing() -> None:
    with pytest.raises(ModelBusy) as failed:
        turn_with(Model(says("one"), ModelBusy("busy")))
    assert failed.value.usage == ONE


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (says('{"a": ', finish_reason="length"), StopReason.OUTPUT_LIMIT),
        (says("", refusal="I cannot."), StopReason.REFUSED),
    ],
)
def test_reply_stays_as_it_is_when_it_was_cut_or_refused(reply: Reply, reason: StopReason) -> None:
    record = turn_with(Model(reply))
    assert record.outcome
    assert record.outcome.stop_reason is reason


def test_calls_are_run_as_ever_when_a_form_is_wanted() -> None:
    call = RequestedCall("c", "search", '{"q": "x"}')
    assert turn_with(Model(says("Let me look.", calls=(call,)))).decision.next == "act"


def test_closing_answer_has_the_form_too_when_a_bound_is_reached() -> None:
    run = a_formed_run()
    model = Model(says("So far nothing."), says('{"a": 0}'))
    record = turn_with(model, run.agent.limits.max_turns + 1, run)
    assert (answer_of(record), record.unsaid) == ('{"a": 0}', '{"a": 0}')
