"""Batches from their sources to their results: every input ends in one of two files, whatever happens meanwhile."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stepagent import resuming
from stepagent.api import batches
from stepagent.api.batch_requests import BatchesQuery, ResultsQuery
from stepagent.api.batches import cancel, show_batch, show_batches, show_results
from stepagent.api.idempotency import find_job
from stepagent.batches import running
from stepagent.batches.finishing import batch_execution_ended, finish_batch
from stepagent.batches.models import Batch, BatchStatus, Counts, InputRef, job_id_of
from stepagent.batches.preparing import prepare_batch
from stepagent.batches.running import run_input
from stepagent.clock import now
from stepagent.errors import Conflict, IdempotencyKeyReused, InvalidRequest, NotFound, RecordUnavailable
from stepagent.executions import LOST, SERVICE_RESTART
from stepagent.runs import ENDED, Principal, Run, RunId, RunStatus
from stepagent.store.batches import read_counts, require_batch
from tests import bucket
from tests.batches import ANN, Service, begin, end, install, key, lines_of, prepare, run_of
from tests.disturbance import Crash, Disturbance, crash
from tests.tables import tables_in_memory

THREE = ["one", "two", "three"]


@pytest.fixture(scope="module")
def disturbance() -> Iterator[Disturbance]:
    with tables_in_memory(), bucket.bucket_in_memory():
        yield Disturbance()


@pytest.fixture
def service(disturbance: Disturbance, monkeypatch: pytest.MonkeyPatch) -> Service:
    return install(monkeypatch)


def run_all(refs: list[InputRef]) -> None:
    """What the Map does, all runs succeeding."""
    for ref in refs:
        run_input(ref, f"token {ref.n}")
        end(run_of(ref).run_id, f"answer to {ref.id}")


def results(name: str = "results.jsonl") -> list[tuple[Any, ...]]:
    return [(line["input_id"], line["status"], line.get("answer")) for line in lines_of(name)]


def batch() -> Batch:
    return require_batch(key())


# ---- beginning


def test_batch_is_started_once_when_its_request_comes_again(service: Service) -> None:
    begin(THREE)
    assert begin(THREE)["status"] == "running"
    assert service.batches == ["b1-1"]


def test_same_id_with_other_inputs_is_refused(service: Service) -> None:
    begin(THREE)
    with pytest.raises(IdempotencyKeyReused):
        begin(["other"])


def test_two_owners_may_use_the_same_id(service: Service) -> None:
    begin(THREE)
    begin(["other"], owner=Principal("bob"))
    assert len(service.batches) == 2


def test_batch_of_another_owner_is_not_there(service: Service) -> None:
    begin(THREE)
    for read in (show_batch, cancel, lambda id_, who: show_results(id_, ResultsQuery(), who)):
        with pytest.raises(NotFound):
            read("b1", Principal("bob"))


@pytest.mark.parametrize("place", ["batches/inputs/bob/x.jsonl", "batches/results/ann/b0/results.jsonl", "payloads/1"])
@pytest.mark.parametrize("kind", ["key", "prefix"])
def test_source_outside_the_callers_own_folder_is_refused(service: Service, place: str, kind: str) -> None:
    with pytest.raises(InvalidRequest, match="batches/inputs/ann/"):
        begin(None, source={kind: place})


def test_batches_are_listed_the_newest_first_in_pages(service: Service) -> None:
    for name in ("a", "b", "c"):
        begin(THREE, name)
    first = show_batches(BatchesQuery(limit=2), ANN)
    second = show_batches(BatchesQuery(limit=2, after=first["next"]), ANN)
    assert [each["batch_id"] for each in (*first["data"], *second["data"])] == ["c", "b", "a"]
    assert (first["has_more"], second["has_more"]) == (True, False)


# ---- preparing


def test_inputs_stand_in_the_order_of_their_ids(service: Service) -> None:
    begin('{"id": "10", "input": "x"}\n{"id": "9", "input": "y"}\n{"id": "a", "input": "z"}\n')
    assert [(ref.n, ref.id, ref.line) for ref in prepare()] == [(0, "9", 2), (1, "10", 1), (2, "a", 3)]


def test_inputs_stay_when_their_source_changes(service: Service) -> None:
    bucket.put("batches/inputs/ann/x.csv", "id,input\na,one\n")
    begin(None, source={"key": "batches/inputs/ann/x.csv"})
    first = prepare()
    bucket.put("batches/inputs/ann/x.csv", "id,input\nb,two\nc,three\n")
    assert prepare() == first


@pytest.mark.parametrize("content", [None, "\n\n"])
def test_batch_fails_with_the_reason_when_its_source_holds_nothing(service: Service, content: str | None) -> None:
    if content is not None:
        bucket.put("batches/inputs/ann/x.jsonl", content)
    begin(None, source={"key": "batches/inputs/ann/x.jsonl"})
    assert prepare_batch(key()).next == "finish"
    finish_batch(key())
    shown = show_batch("b1", ANN)
    assert (shown["status"], shown["failure"]["code"], shown["files"]) == ("failed", "invalid_source", None)


def test_objects_below_a_prefix_are_inputs(service: Service) -> None:
    for name, content in {"b.txt": "two", "a.txt": "one", "c.txt": "  "}.items():
        bucket.put(f"batches/inputs/ann/docs/{name}", content)
    begin(None, source={"prefix": "batches/inputs/ann/docs/"})
    refs = prepare()
    for ref in refs:
        run_input(ref, "token")
    assert [ref.id for ref in refs] == ["a.txt", "b.txt", "c.txt"]
    assert service.answered == [("token", False)]  # of the blank one


# ---- running


def test_input_is_run_once_when_its_state_is_entered_again(service: Service) -> None:
    begin(["one"])
    [ref] = prepare()
    run_input(ref, "first")
    run_input(ref, "second")
    end(run_of(ref).run_id)
    assert len(set(service.runs)) == 1
    assert sorted(service.answered) == [("first", True), ("second", True)]


def test_input_that_has_ended_answers_at_once(service: Service) -> None:
    begin(["one"])
    [ref] = prepare()
    run_all([ref])
    run_input(ref, "again")
    assert service.answered == [("token 0", True), ("again", True)]
    assert len(service.runs) == 1


def test_run_tells_which_input_it_answers(service: Service) -> None:
    begin('{"id": "a", "input": "one", "metadata": {"row": "7"}, "session_id": "s"}')
    [ref] = prepare()
    run_input(ref, "token")
    run = run_of(ref)
    assert (run.batch and run.batch.input_id, run.metadata, run.session_id, run.owner) == ("a", {"row": "7"}, "s", ANN)


def test_input_fails_alone_when_its_line_is_bad(service: Service) -> None:
    begin('{"input": "good"}\n{bad\n{"input": ""}\n')
    refs = prepare()
    for ref in refs:
        run_input(ref, f"token {ref.n}")
    assert service.answered == [("token 1", False), ("token 2", False)]
    end(run_of(refs[0]).run_id)
    finish_batch(key())
    assert [line["failure"]["code"] for line in lines_of("failures.jsonl")] == ["invalid_input"] * 2
    assert results() == [("1", "completed", "Here.")]


def test_input_waits_for_its_session(service: Service) -> None:
    begin('{"input": "one", "session_id": "s"}\n{"input": "two", "session_id": "s"}')
    first, second = prepare()
    run_input(first, "token 0")
    for token in ("token 1", "token 2"):
        with pytest.raises(Conflict):
            run_input(second, token)
    end(run_of(first).run_id)
    run_input(second, "token 3")
    end(run_of(second).run_id)
    assert service.answered == [("token 0", True), ("token 3", True)]


def test_state_is_entered_again_when_step_functions_takes_no_more(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run: Run) -> bool:
        raise ClientError({"Error": {"Code": "ThrottlingException"}}, "StartExecution")

    begin(["one"])
    [ref] = prepare()
    with monkeypatch.context() as patch:
        patch.setattr("stepagent.api.beginning.start_execution", refuse)
        with pytest.raises(RecordUnavailable):
            run_input(ref, "token")
    run_input(ref, "again")
    end(run_of(ref).run_id)
    assert ("again", True) in service.answered
    assert len(set(service.runs)) == 1


def test_run_that_was_lost_for_good_ends_its_input(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(["one"])
    [ref] = prepare()
    run_input(ref, "token")
    monkeypatch.setattr(resuming, "MAX_RESUMPTIONS", 0)
    monkeypatch.setattr(resuming, "execution_status", lambda run: LOST)
    run_input(ref, "again")
    assert ("again", False) in service.answered
    assert run_of(ref).status is RunStatus.FAILED


def test_counts_are_exact_wherever_a_process_dies(disturbance: Disturbance, monkeypatch: pytest.MonkeyPatch) -> None:
    service = install(monkeypatch)
    refs: list[InputRef] = []

    def prepare_anew() -> None:
        nonlocal service
        service = install(monkeypatch)
        begin(["one"])
        refs[:] = prepare()

    def step() -> None:
        run_input(refs[0], "token")
        end(run_of(refs[0]).run_id)

    for requests in disturbance.everywhere(crash, prepare_anew, step):
        assert read_counts(key()) == Counts(1, 1, 0), f"after {requests} requests"
        assert set(service.answered) == {("token", True)}
        assert len(set(service.runs)) == 1


def test_progress_is_told_while_inputs_run(service: Service) -> None:
    begin(THREE)
    assert show_batch("b1", ANN)["counts"]["total"] is None
    refs = prepare()
    run_all(refs[:1])
    run_input(refs[1], "token")
    expected = {"total": 3, "pending": 1, "running": 1, "succeeded": 1, "failed": 0}
    assert show_batch("b1", ANN)["counts"] == expected


# ---- finishing


def test_results_stand_in_the_order_of_ids_whatever_ended_first(service: Service) -> None:
    begin(THREE)
    run_all(list(reversed(prepare())))
    finish_batch(key())
    assert results() == [(str(n), "completed", f"answer to {n}") for n in (1, 2, 3)]
    assert lines_of("failures.jsonl") == []
    shown = show_batch("b1", ANN)
    assert (shown["status"], shown["counts"]["succeeded"], shown["counts"]["failed"]) == ("completed", 3, 0)


def test_inputs_of_a_batch_that_failed_too_often_are_listed_and_none_goes_on(service: Service) -> None:
    begin(THREE)
    refs = prepare()
    run_input(refs[0], "token 0")
    end(run_of(refs[0]).run_id, "", RunStatus.FAILED)
    run_input(refs[1], "token 1")
    finish_batch(key(), "States.ExceedToleratedFailureThreshold")
    failures = [(line["input_id"], line["status"], line["failure"]["code"]) for line in lines_of("failures.jsonl")]
    assert failures[0][:2] == ("1", "failed")
    assert failures[1:] == [("2", "cancelled", "cancelled"), ("3", "failed", "not_run")]
    assert run_of(refs[1]).status is RunStatus.CANCELLED
    assert batch().failure
    assert batch().failure.code == "too_many_failures"  # type: ignore[union-attr]  # it is there


def test_batch_that_failed_goes_on_with_what_is_left_when_it_is_begun_again(service: Service) -> None:
    begin(THREE)
    run_all(prepare()[:1])
    finish_batch(key(), "States.ExceedToleratedFailureThreshold")
    assert begin(THREE, tolerated_failure_percentage=50)["tolerated_failure_percentage"] == 50
    assert service.batches == ["b1-1", "b1-2"]
    run_all(prepare()[1:])
    finish_batch(key())
    assert [line[0] for line in results()] == ["1", "2", "3"]
    assert len(set(service.runs)) == 3


def test_input_that_did_not_begin_fails_its_batch_until_it_is_begun_again(service: Service) -> None:
    begin(THREE)
    refs = prepare()
    run_all(refs[:2])
    finish_batch(key())
    shown = show_batch("b1", ANN)
    assert (shown["status"], shown["failure"]["code"], shown["counts"]["failed"]) == ("failed", "inputs_not_run", 1)
    begin(THREE)
    run_all(refs[2:])
    finish_batch(key())
    assert (batch().status, len(results())) == (BatchStatus.COMPLETED, 3)


@pytest.fixture
def unnoted(service: Service, monkeypatch: pytest.MonkeyPatch) -> tuple[InputRef, RunId]:
    """An input whose process died right behind the start of its run."""
    begin(["one"])
    [ref] = prepare()
    with monkeypatch.context() as patch:
        patch.setattr(running, "note_run", lambda *_: crash())
        with pytest.raises(Crash):
            run_input(ref, "token")
    begun = find_job(ANN, job_id_of(batch(), 0))
    assert begun
    return ref, begun.run_id


def test_result_is_found_when_the_run_ended_before_it_was_noted(unnoted: tuple[InputRef, RunId]) -> None:
    ref, run_id = unnoted
    end(run_id)
    run_input(ref, "again")
    finish_batch(key())
    assert results() == [("1", "completed", "Here.")]


def test_run_that_was_not_noted_is_cancelled_with_its_batch(unnoted: tuple[InputRef, RunId]) -> None:
    cancel("b1", ANN)
    finish_batch(key(), "ABORTED")
    assert [(line["run_id"], line["status"]) for line in lines_of("failures.jsonl")] == [(unnoted[1], "cancelled")]


def test_finishing_twice_changes_nothing(service: Service) -> None:
    begin(THREE)
    run_all(prepare())
    first = finish_batch(key())
    assert finish_batch(key(), "ABORTED") == first


def test_results_are_read_in_pages_once_the_batch_has_ended(service: Service) -> None:
    begin(THREE)
    run_all(prepare())
    with pytest.raises(Conflict):
        show_results("b1", ResultsQuery(), ANN)
    finish_batch(key())
    first = show_results("b1", ResultsQuery(limit=2), ANN)
    second = show_results("b1", ResultsQuery(limit=2, after=first["next"]), ANN)
    assert [each["input_id"] for each in (*first["data"], *second["data"])] == ["1", "2", "3"]
    assert (second["has_more"], second["next"]) == (False, None)
    assert show_results("b1", ResultsQuery(kind="failed"), ANN)["data"] == []


# ---- cancelling, and executions that are lost


def test_no_input_begins_and_no_run_goes_on_when_a_batch_is_cancelled(service: Service) -> None:
    begin(THREE)
    refs = prepare()
    run_all(refs[:1])
    run_input(refs[1], "token 1")
    assert cancel("b1", ANN)["status"] == "cancelling"
    run_input(refs[2], "token 2")
    batch_execution_ended(execution(1), "ABORTED")
    assert service.stopped == ["b1-1"]
    assert service.answered == [("token 0", True), ("token 2", False), ("token 1", False)]
    assert batch().status is BatchStatus.CANCELLED
    assert [line["failure"]["code"] for line in lines_of("failures.jsonl")] == ["cancelled", "cancelled"]
    assert all(run_of(ref).status in ENDED for ref in refs[:2])


def test_batch_without_an_execution_is_finished_by_another_one_when_it_is_cancelled(service: Service) -> None:
    begin(THREE)
    prepare()
    service.status = LOST
    cancel("b1", ANN)
    assert service.batches == ["b1-1", "b1-2"]
    assert prepare_batch(key()).next == "finish"
    finish_batch(key())
    assert batch().status is BatchStatus.CANCELLED


def test_lost_execution_is_replaced_and_what_ended_is_not_run_again(service: Service) -> None:
    begin(THREE)
    run_all(prepare()[:2])
    service.status = LOST
    batch_execution_ended(execution(1), SERVICE_RESTART)
    assert service.batches == ["b1-1", "b1-2"]
    service.status = "RUNNING"
    for ref in prepare():
        run_input(ref, f"new {ref.n}")
    assert service.answered[2:] == [("new 0", True), ("new 1", True)]
    end(run_of(prepare()[2]).run_id)
    finish_batch(key())
    assert [line[0] for line in results()] == ["1", "2", "3"]


def test_two_who_find_an_execution_lost_start_one(service: Service) -> None:
    begin(THREE)
    prepare()
    service.status = LOST
    batch_execution_ended(execution(1), SERVICE_RESTART)
    service.status = None  # it is counted, and not started yet
    begin(THREE)
    assert set(service.batches) == {"b1-1", "b1-2"}


@pytest.mark.parametrize("recorded_ago", [timedelta(hours=-1), timedelta(0), timedelta(hours=1)])
def test_one_execution_begins_whatever_the_clocks_say_when_who_recorded_it_starts_it_late(
    service: Service, monkeypatch: pytest.MonkeyPatch, recorded_ago: timedelta
) -> None:
    recorded_at = now() - recorded_ago
    monkeypatch.setattr(batches, "now", lambda: recorded_at)
    begin(THREE)
    service.status = None
    begin(THREE)
    assert set(service.batches) == {"b1-1"}


@pytest.mark.parametrize("entered", [["first", "second"], ["second", "first"], ["first", "second", "first"]])
def test_every_state_goes_on_that_waits_for_an_input(service: Service, entered: list[str]) -> None:
    begin(THREE)
    ref = prepare()[0]
    for token in entered:
        run_input(ref, token)
    end(run_of(ref).run_id)
    assert {("first", True), ("second", True)} <= set(service.answered)


def test_end_of_an_execution_that_was_replaced_tells_nothing(service: Service) -> None:
    begin(THREE)
    prepare()
    service.status = LOST
    batch_execution_ended(execution(1), SERVICE_RESTART)
    batch_execution_ended(execution(1), "FAILED")
    assert batch().status is BatchStatus.RUNNING


def execution(number: int) -> str:
    return f"batch_{key()}-{number}"
