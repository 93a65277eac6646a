"""One turn, with a model that answers from a list."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

import pytest

from stepagent.agents import Limits
from stepagent.clock import now
from stepagent.errors import ModelBusy, ModelFiltered, ModelReplyUnusable
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import Correction, ModelRequest, Reply
from stepagent.llm.tool_choice import ToolChoice
from stepagent.messages import AttachedFile, UserMessage
from stepagent.runs import Call, CallKey, CallStatus, RunStatus, StopReason, TurnRecord
from stepagent.tool_specs import ToolSpec
from stepagent.turn import MAX_RECORDED_CALLS, run_turn
from stepagent.usage import Usage
from tests.builders import ListedModel, a_call, a_done_call, a_run, a_tool, call_id, said

QUESTION = UserMessage(text="What is new?")
SEARCH = ("search", '{"q": "news"}')


def first_turn(*replies: Reply, limits: Limits | None = None, tools: Sequence[ToolSpec] = ()) -> TurnRecord:
    return run_turn(a_run(*tools, limits=limits), 1, [QUESTION], ListedModel(*replies))


def results_of(record: TurnRecord) -> list[str]:
    """The text of each call's result, `""` for a call that is yet to run."""
    return [call.result.text if call.result else "" for call in record.calls]


def test_turn_ends_the_run_with_the_text_when_no_tool_is_called() -> None:
    record = first_turn(said("Nothing new."))
    assert (record.decision.next, record.decision.reason) == ("done", "answered")
    assert record.outcome
    assert record.outcome[:3] == (RunStatus.COMPLETED, StopReason.ANSWERED, "Nothing new.")


def test_turn_refers_to_calls_by_id_alone_when_tools_are_called() -> None:
    record = first_turn(said("", SEARCH))
    assert record.outcome is None
    assert [reference.model_dump() for reference in record.decision.calls] == [
        {"call_id": "call_1_1_0", "kind": "tool", "target": "tool_search", "timeout_s": 35}
    ]


def test_turn_keeps_the_text_beside_the_calls_when_finish_reason_is_stop() -> None:
    record = first_turn(said("Let me look.", SEARCH, finish_reason="stop"))
    assert record.reply
    assert (record.decision.next, record.reply.text, len(record.decision.calls)) == ("act", "Let me look.", 1)


def test_turn_asks_a_person_when_the_tool_is_interactive() -> None:
    ask_user = a_tool("ask_user", kind="interactive", target="", timeout_s=60)
    [reference] = first_turn(said("", ("ask_user", '{"q": "Which?"}')), tools=[ask_user]).decision.calls
    assert (reference.kind, reference.timeout_s) == ("ask", 60)


def test_unknown_tool_gets_the_list_of_tools_when_it_is_called() -> None:
    record = first_turn(said("", ("serach", "{}")))
    assert record.decision.calls == ()
    assert record.calls[0].status is CallStatus.DONE
    assert results_of(record) == ["There is no tool 'serach'. The tools are: search. Perhaps you mean search."]


@pytest.mark.parametrize(
    "arguments",
    ['{"q": "cut', "[1]", '"text"', "7", "null", '{"count": 1}', '{"q": 5}', '{"q": "x", "more": 1}', '{"q": NaN}'],
)
def test_bad_arguments_go_back_to_the_model_with_the_schema_when_it_sends_them(arguments: str) -> None:
    record = first_turn(said("", ("search", arguments)))
    assert record.decision.next == "act"
    assert record.decision.calls == ()
    assert "The schema is: {" in results_of(record)[0]


def test_good_call_runs_when_its_neighbour_has_bad_arguments() -> None:
    record = first_turn(said("", ("search", "{"), SEARCH))
    assert [reference.call_id for reference in record.decision.calls] == [call_id(1)]


def test_no_call_runs_when_the_reply_was_cut() -> None:
    record = first_turn(said("", SEARCH, finish_reason="length"))
    assert record.decision.calls == ()
    assert results_of(record) == [
        "Not run: your reply was cut off at its length limit, so this call may be incomplete."
    ]


@pytest.mark.parametrize("reply", [said("", SEARCH), said("Half of"), said("")])
def test_no_call_runs_and_nothing_is_an_answer_when_the_filter_stopped_the_reply(reply: Reply) -> None:
    with pytest.raises(ModelFiltered) as error:
        first_turn(reply._replace(finish_reason="content_filter"))
    assert error.value.usage.input_tokens == 10


def test_answer_is_kept_with_its_own_reason_when_it_was_cut() -> None:
    record = first_turn(said("As I was say", finish_reason="length"))
    assert record.outcome
    assert record.outcome[:3] == (RunStatus.COMPLETED, StopReason.OUTPUT_LIMIT, "As I was say")


def test_refusal_is_the_answer_when_the_model_refuses() -> None:
    record = first_turn(said("", refusal="I cannot help."))
    assert record.outcome
    assert record.outcome[:3] == (RunStatus.COMPLETED, StopReason.REFUSED, "I cannot help.")
    assert record.unsaid == "I cannot help."


CORRECTION = Correction("1: {", "Reply again.")


@pytest.mark.parametrize("broken", [1, 2])
def test_model_is_told_the_rule_when_it_broke_the_protocol(broken: int) -> None:
    model = ListedModel(*[said("", correction=CORRECTION)] * broken, said("Fine."))
    record = run_turn(a_run(), 1, [QUESTION], model)
    assert [request.correction for request in model.asked] == [None, *[CORRECTION] * broken]
    assert record.outcome
    assert (record.outcome.answer, record.usage.input_tokens) == ("Fine.", 10 * (broken + 1))


def test_run_ends_unusable_when_the_protocol_is_broken_three_times() -> None:
    model = ListedModel(*[said("", correction=CORRECTION)] * 4)
    with pytest.raises(ModelReplyUnusable, match="three times") as error:
        run_turn(a_run(), 1, [QUESTION], model)
    assert (len(model.asked), error.value.usage.input_tokens) == (3, 30)


def test_tokens_of_the_first_reply_count_when_the_second_request_fails() -> None:
    with pytest.raises(ModelBusy) as error:
        run_turn(a_run(), 1, [QUESTION], ListedModel(said(""), ModelBusy("busy")))
    assert error.value.usage.input_tokens == 10


@pytest.mark.parametrize(("reads_files", "quoted"), [(False, True), (True, False)])
def test_documents_are_quoted_when_the_agent_cannot_read_them(reads_files: bool, quoted: bool) -> None:
    model, run = ListedModel(said("ok")), a_run()
    attached = UserMessage(text="See.", files=(AttachedFile(name="a.txt", text="The colour is blue."),))
    reader = run.agent.model_copy(update={"reads_files": reads_files})
    run_turn(run.model_copy(update={"agent": reader}), 1, [attached], model)
    [message] = model.asked[0].messages
    assert ("The colour is blue." in message.text, model.asked[0].file_header) == (quoted, reads_files)


def test_images_are_shown_for_the_last_two_questions_when_there_were_more() -> None:
    model = ListedModel(said("ok"))
    asked = [UserMessage(text=str(n), images=(f"https://example.org/{n}.png",)) for n in range(4)]
    run_turn(a_run(), 1, asked, model)
    assert [len(message.images) for message in model.asked[0].messages if isinstance(message, UserMessage)] == [
        0,
        0,
        1,
        1,
    ]


def test_calls_above_the_limit_get_a_result_that_says_so_when_a_reply_makes_too_many() -> None:
    record = first_turn(said("", *[SEARCH] * 4), limits=Limits(max_calls_per_turn=3))
    assert len(record.decision.calls) == 3
    assert results_of(record) == ["", "", "", "Not run: one reply may make at most 3 calls."]


def test_same_tool_keeps_its_own_arguments_when_it_is_called_twice() -> None:
    record = first_turn(said("", ("search", '{"q": "a"}'), ("search", '{"q": "b"}')))
    assert [call.arguments for call in record.calls] == [{"q": "a"}, {"q": "b"}]


def test_every_call_id_is_its_own_when_the_provider_repeats_ids() -> None:
    reply = said("", SEARCH, SEARCH)
    repeated = reply._replace(calls=tuple(call._replace(provider_id="same") for call in reply.calls))
    record = first_turn(repeated)
    assert [call.call_id for call in record.calls] == [call_id(0), call_id(1)]


def test_answer_is_the_second_reply_when_the_first_is_empty() -> None:
    record = first_turn(said("  \n"), said("Here."))
    assert record.outcome
    assert record.outcome.answer == "Here."
    assert (record.usage.input_tokens, record.usage.output_tokens) == (20, 10)


def test_run_ends_unusable_when_two_replies_are_empty() -> None:
    model = ListedModel(said(""), said("", reasoning="hm"), said("never asked for"))
    with pytest.raises(ModelReplyUnusable, match="empty, twice"):
        run_turn(a_run(), 1, [QUESTION], model)
    assert len(model.asked) == 2


def test_closing_call_offers_no_tools_when_the_turns_are_used_up() -> None:
    model = ListedModel(said("As far as I know: no."))
    record = run_turn(a_run(limits=Limits(max_turns=2)), 3, [QUESTION], model)
    assert model.asked[0].tools == ()
    assert model.asked[0].closing
    assert model.asked[0].messages == [QUESTION]
    assert record.outcome
    assert record.outcome[:3] == (RunStatus.COMPLETED, StopReason.MAX_TURNS, "As far as I know: no.")


@pytest.mark.parametrize(
    ("limits", "usage", "reason"),
    [
        (Limits(max_total_tokens=10), Usage(input_tokens=10), StopReason.MAX_TOKENS),
        (Limits(max_cost_usd=Decimal("0.1")), Usage(cost_usd=Decimal("0.1")), StopReason.MAX_COST),
        (Limits(max_calls=1), Usage(), StopReason.MAX_CALLS),
        (Limits(max_wall_s=1), Usage(), StopReason.MAX_WALL_TIME),
        (Limits(max_turns=1), Usage(), StopReason.MAX_TURNS),
    ],
)
def test_run_lands_softly_with_a_reason_of_its_own_when_a_bound_is_reached(
    limits: Limits, usage: Usage, reason: StopReason
) -> None:
    long_ago = now() - timedelta(hours=1)
    run = a_run(limits=limits, usage=usage, created_at=long_ago)
    model = ListedModel(said("What I know."))
    record = run_turn(run, 2, [QUESTION, a_done_call("x")], model)
    assert record.outcome
    assert record.outcome[:3] == (RunStatus.COMPLETED, reason, "What I know.")
    assert model.asked[0].tools == ()
    assert model.asked[0].closing


def test_calls_above_what_is_left_get_a_result_that_says_so_when_a_reply_makes_too_many() -> None:
    run = a_run(limits=Limits(max_calls=3))
    earlier: list[UserMessage | Call] = [QUESTION, a_done_call("x"), a_done_call("y", 1)]
    record = run_turn(run, 2, earlier, ListedModel(said("", SEARCH, SEARCH)))
    assert ["at most 3 calls" in text for text in results_of(record)] == [False, True]


@pytest.mark.parametrize(("kept_bytes", "offered"), [(None, ["search"]), (99_999, ["search", "read_result"])])
def test_reading_on_is_offered_when_a_result_was_too_long_to_show(kept_bytes: int | None, offered: list[str]) -> None:
    done = a_done_call("preview")
    assert done.result
    entry = done.model_copy(update={"result": done.result.model_copy(update={"kept_bytes": kept_bytes})})
    model = ListedModel(said("Done."))
    run_turn(a_run(a_tool(), a_tool("read_result")), 2, [QUESTION, entry], model)
    assert [tool.name for tool in model.asked[0].tools] == offered


def test_tools_are_offered_still_when_the_last_turn_begins() -> None:
    model = ListedModel(said("", SEARCH))
    record = run_turn(a_run(limits=Limits(max_turns=2)), 2, [QUESTION], model)
    assert model.asked[0].tools
    assert record.decision.next == "act"


@pytest.mark.parametrize("reply", [said("", SEARCH), said(""), said("  ")])
def test_closing_answer_says_why_when_the_model_gives_none(reply: Reply) -> None:
    record = run_turn(a_run(limits=Limits(max_turns=2)), 3, [QUESTION], ListedModel(reply))
    assert record.outcome
    assert record.reply
    assert "2 steps" in record.outcome.answer
    assert record.outcome.answer == record.reply.text == record.unsaid
    assert (record.calls, record.reply.calls, record.decision.calls) == ((), (), ())


def stop_tool_turn(*calls: Call) -> TurnRecord:
    return run_turn(a_run(), 2, [QUESTION, *calls], ListedModel(said("asked")))


def test_run_ends_with_the_result_when_a_stop_tool_was_called() -> None:
    record = stop_tool_turn(a_done_call("other"), a_done_call("the answer", 1, returns_directly=True))
    assert (record.decision.next, record.decision.reason) == ("done", "stop_tool")
    assert record.outcome
    assert record.outcome.answer == record.unsaid == "the answer"


@pytest.mark.parametrize(
    "call",
    [
        a_done_call("boom", returns_directly=True, is_error=True),
        a_call(returns_directly=True),
        a_done_call("long ago", turn=0, returns_directly=True),
        a_done_call("another run's", returns_directly=True, call_id="call_2_1_0"),
    ],
)
def test_model_is_asked_when_the_stop_tool_gave_no_answer_in_the_turn_before(call: Call) -> None:
    assert stop_tool_turn(call).decision.reason == "answered"


def test_arguments_are_replayed_letter_for_letter_when_they_hold_a_large_integer() -> None:
    arguments = '{"z":1234567890123456789012345,"a":[1.50,"ä"],"q":"x"}'
    tool = a_tool(parameters={"type": "object"})
    record = first_turn(said("", ("search", arguments)), tools=[tool])
    assert record.reply
    assert record.reply.calls[0].arguments == arguments
    assert record.calls[0].arguments["z"] == 1234567890123456789012345
    assert list(record.calls[0].arguments) == ["z", "a", "q"]


def test_arguments_survive_the_record_when_they_hold_a_large_integer() -> None:
    arguments = '{"z":1234567890123456789012345,"q":"x"}'
    [call] = first_turn(said("", ("search", arguments)), tools=[a_tool(parameters={"type": "object"})]).calls
    assert Call.model_validate_json(call.model_dump_json()).arguments == call.arguments


def test_broken_arguments_are_replayed_as_an_empty_object_when_they_were_no_json() -> None:
    record = first_turn(said("", ("search", '{"q": "cut')))
    assert record.reply
    assert record.reply.calls[0].arguments == "{}"


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
def test_empty_arguments_stand_for_none_when_the_tool_takes_none(arguments: str) -> None:
    record = first_turn(said("", ("ping", arguments)), tools=[a_tool("ping", parameters={"type": "object"})])
    assert record.reply
    assert (record.calls[0].arguments, record.reply.calls[0].arguments) == ({}, "{}")


def test_name_is_trimmed_when_the_model_pads_it() -> None:
    record = first_turn(said("", (" search\n", '{"q": "x"}')))
    assert record.reply
    assert (len(record.decision.calls), record.reply.calls[0].name) == (1, "search")


@pytest.mark.parametrize("name", ["my tool", "multi_tool_use.parallel", "", "7up", "suche\u00e4", "x" * 300, "a\x00b"])
def test_replayed_name_is_one_that_providers_take_when_the_model_made_it_up(name: str) -> None:
    record = first_turn(said("", (name, "{}")))
    assert record.reply
    mode = ToolChoice(ModelSpec(name="m", provider_model="m", base_url="http://127.0.0.1/v1"))
    [message] = mode.render(ModelRequest("", [record.reply], ()), {})["messages"]
    name_sent = message["tool_calls"][0]["function"]["name"]
    assert name_sent.isascii()
    assert name_sent.replace("-", "_").isidentifier()
    assert len(name_sent) <= 64


def test_runaway_reply_is_cut_to_what_one_transaction_holds_when_it_makes_a_thousand_calls() -> None:
    record = first_turn(said("", *[SEARCH] * 1000))
    assert record.reply
    assert len(record.calls) == len(record.reply.calls) == MAX_RECORDED_CALLS
    assert len(record.decision.calls) == 10


def test_every_recorded_call_stands_where_its_id_says_when_there_are_several() -> None:
    record = first_turn(said("", *[SEARCH] * 3))
    assert [call.key for call in record.calls] == [CallKey(1, 1, position) for position in range(3)]


def test_system_text_is_the_agents_and_the_callers_when_both_give_some() -> None:
    model = ListedModel(said("ok"))
    run_turn(a_run(system="Speak French."), 1, [QUESTION], model)
    assert model.asked[0].system == "Be helpful.\n\nSpeak French."


def test_earlier_calls_have_their_results_when_the_model_is_asked_again() -> None:
    first = first_turn(said("", SEARCH, SEARCH))
    assert first.reply
    model = ListedModel(said("done"))
    done = [a_done_call("two", 1), a_done_call("one", 0)]
    run_turn(a_run(), 2, [QUESTION, first.reply, *done], model)
    assert [getattr(message, "text", "") for message in model.asked[0].messages[2:]] == ["one", "two"]


DEEP = '{"q": ' + "[" * 400 + "]" * 400 + "}"


@pytest.mark.parametrize("arguments", [DEEP, '{"q": "\\ud800"}', '{"q": 1e999}'])
def test_call_can_be_recorded_when_its_arguments_are_valid_json_that_no_record_holds(arguments: str) -> None:
    [call] = first_turn(said("", ("search", arguments)), tools=[a_tool(parameters={"type": "object"})]).calls
    assert Call.model_validate_json(call.model_dump_json()) == call


@pytest.mark.parametrize(("reasoning", "told"), [("cot", True), (None, False)])
def test_model_is_told_to_think_first_when_its_agent_wants_that(reasoning: str | None, told: bool) -> None:
    model, run = ListedModel(said("ok")), a_run()
    thinking = run.agent.model_copy(update={"reasoning": reasoning})
    run_turn(run.model_copy(update={"agent": thinking}), 1, [QUESTION], model)
    assert ("<think>" in model.asked[0].system) is told
