"""The log: each line bears the ids of what its function works on, and no word that a caller chose."""

import asyncio
import io
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from stepagent.observe import identify, ids_in, logger, observed
from stepagent.tools import tool
from tests.log_capture import captured_log, lines

PAYLOAD = "4000-1234"
RUN, CALL, QUESTION = "run_abc_1", "call_1_2_0", "q1w2e3r4t5y6u7i8o9p0as"


@pytest.mark.parametrize(
    ("event", "ids"),
    [
        ({"run_id": RUN, "turn": 2}, {"run_id": RUN, "turn": 2}),
        ({"run_id": RUN, "call_id": CALL, "task_token": "t"}, {"run_id": RUN, "call_id": CALL}),
        ({"batch": {"owner": "ann", "batch_id": "night-1"}, "n": 3}, {"batch_id": "night-1"}),
        ({"pathParameters": {"run_id": RUN}, "path": f"/runs/{RUN}"}, {"run_id": RUN}),
        ({"pathParameters": None}, {}),
        ({"detail": {"name": f"{RUN}-2", "status": "FAILED"}}, {"run_id": RUN}),
        ({"detail": {"name": f"{RUN}-{CALL}"}}, {"run_id": RUN, "call_id": CALL}),
        ({"interaction_id": QUESTION, "number": 1}, {"interaction_id": QUESTION}),
    ],
    ids=str,
)
def test_ids_are_read_from_the_event(event: dict[str, Any], ids: dict[str, str | int]) -> None:
    assert ids_in(event) == ids


@pytest.mark.parametrize(
    "value", ["4000 1234", "run_abc", "run_abc_1 and some more", "x" * 200, "", None, {"a": 1}, "run_abc_1\n"]
)
@pytest.mark.parametrize("name", ["run_id", "call_id", "turn", "interaction_id"])
def test_what_has_not_the_form_of_an_id_is_not_logged(name: str, value: Any) -> None:
    assert ids_in({"pathParameters": {name: value}, name: value}) == {}


def test_every_line_of_an_invocation_bears_its_ids_and_those_of_the_function() -> None:
    context = SimpleNamespace(function_name="stack-Think", aws_request_id="r1")
    with captured_log() as stream:
        observed(lambda event, context: logger.info("worked"))({"run_id": RUN, "turn": 3}, context)
    [line] = lines(stream)
    told = {name: line[name] for name in ("run_id", "turn", "function_name", "function_request_id")}
    assert told == {"run_id": RUN, "turn": 3, "function_name": "stack-Think", "function_request_id": "r1"}


def test_lines_of_an_invocation_bear_no_id_of_the_one_before() -> None:
    handler = observed(lambda event, context: logger.info("worked"))
    with captured_log() as stream:
        handler({"run_id": RUN, "call_id": CALL}, None)
        handler({"run_id": "run_abc_2"}, None)
    assert [(line["run_id"], line.get("call_id")) for line in lines(stream)] == [(RUN, CALL), ("run_abc_2", None)]


def test_what_a_function_raises_is_logged_with_its_ids_and_without_its_words() -> None:
    def fail(event: dict[str, Any], context: object) -> None:
        raise ValueError(event["secret"])

    with captured_log() as stream, pytest.raises(ValueError, match="4000"):
        observed(fail)({"run_id": RUN, "secret": "4000-1234"}, None)
    [line] = lines(stream, "function failed")
    assert (line["run_id"], line["exception_name"], "4000" in stream.getvalue()) == (RUN, "ValueError", False)


def test_lines_of_requests_at_the_same_time_bear_each_its_own_ids() -> None:
    async def serve(run_id: str) -> None:
        identify(run_id=run_id)
        await asyncio.sleep(0)
        await asyncio.to_thread(logger.info, "worked")

    async def serve_both() -> None:
        await asyncio.gather(serve("run_abc_1"), serve("run_abc_2"))

    with captured_log() as stream:
        asyncio.run(serve_both())
    assert sorted(line["run_id"] for line in lines(stream)) == ["run_abc_1", "run_abc_2"]


def test_lines_of_a_tool_bear_the_ids_of_its_call() -> None:
    @tool
    def absent() -> str:
        """Does nothing."""
        return ""

    with captured_log() as stream, pytest.raises(KeyError):
        absent({"run_id": RUN}, None)  # the event has no call
    assert [line["run_id"] for line in lines(stream)] == [RUN]


def test_other_handlers_of_the_process_show_no_words_of_what_is_logged() -> None:
    stream = io.StringIO()
    other = logging.StreamHandler(stream)
    logging.getLogger().addHandler(other)
    try:
        raise ValueError(PAYLOAD)  # its line is shown
    except ValueError:
        with captured_log():
            logger.exception("it broke")
    finally:
        logging.getLogger().removeHandler(other)
    assert ("it broke" in stream.getvalue(), PAYLOAD in stream.getvalue()) == (True, False)


def test_server_of_streams_logs_what_is_raised_without_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    server, handler = logging.getLogger("uvicorn.error"), logging.StreamHandler(stream)
    monkeypatch.setattr(server, "level", logging.INFO)  # servers of other tests say nothing
    server.addHandler(handler)
    try:
        raise ValueError(PAYLOAD)  # its line is shown
    except ValueError:
        server.exception("Exception in ASGI application")
    finally:
        server.removeHandler(handler)
    assert ("ValueError" in stream.getvalue(), PAYLOAD in stream.getvalue()) == (True, False)
