"""Runs whose executions are lost when the emulator stops: they go on from their record, and nothing happens twice."""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.build import build
from local.deploy import deploy
from local.emulator import Emulator, start, stop
from stepagent.answering import answer, read_interaction
from stepagent.api.chat import whole_chat
from stepagent.api.service import read_run
from stepagent.api.shapes import run_view
from stepagent.delegation import sub_run_of
from stepagent.runs import ENDED, InteractionId, Run, RunId
from tests import probe
from tests.integration.runs import ME, begin, calls_of, events_of, results_of, until
from tests.integration.runs import probe as probe_call
from tests.local_loop import enter, forget
from tests.plans import a_step, written
from tests.scripted_model import Reply, ScriptedModel

_INTERRUPTED = "Interrupted: the call began and did not end. Its effects are unknown: check before you repeat it."
ASK_COLOUR, ASK_SIZE = ("ask_user", {"question": "Which colour?"}), ("ask_user", {"question": "Which size?"})


class Machine:
    """The product with the probe tools on an emulator of its own, which can be stopped and started again."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.model = model
        self.log = folder / "runs.log"
        self.log.write_text("")
        self._state = folder / "state"
        self._state.mkdir()
        self._root = probe.lay_out(folder / "product")
        parameters = {"ModelBaseUrl": model.base_url, "ModelName": "scripted", "ModelApiKeySecretArn": ""}
        self._package = build(self._root, environment={"PROBE_LOG": str(self.log)}, parameters=parameters)
        self.emulator = self._start()

    def restart(self) -> None:
        stop(self.emulator)
        self.emulator = self._start()

    def _start(self) -> Emulator:
        emulator = start(self._state)
        enter(emulator, deploy(emulator, self._package), self._root)
        return emulator

    @property
    def ran(self) -> Counter[str]:
        """How often the probe tool ran, by what it was told."""
        return Counter(self.log.read_text().splitlines())


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder, before = tmp_path_factory.mktemp("resume"), dict(os.environ)
    (folder / "product").mkdir()
    with ScriptedModel() as model:
        running = Machine(folder, model)
        yield running
        stop(running.emulator)
    os.environ.clear()
    os.environ.update(before)
    forget()


@pytest.fixture(autouse=True)
def clean(machine: Machine) -> None:
    machine.model.reset()
    machine.log.write_text("")


def ended(run_id: RunId) -> Run:
    until(lambda: read_run(run_id, ME).status in ENDED)
    return read_run(run_id, ME)


def waiting(run_id: RunId, questions: int) -> tuple[InteractionId, ...]:
    until(lambda: len(read_run(run_id, ME).pending) == questions)
    return read_run(run_id, ME).pending


# ---- questions to people


def test_run_goes_on_when_one_person_answered_before_it_was_lost_and_one_after(machine: Machine) -> None:
    machine.model.script(Reply(calls=(ASK_COLOUR, ASK_SIZE, probe_call("echo", "a"))), Reply(text="Large and blue."))
    run_id = begin("paint", session_id="two").run.run_id
    asked = {read_interaction(each, ME).question.description: each for each in waiting(run_id, 2)}
    answer(asked["Which colour?"], ME, "blue")
    until(lambda: machine.ran["echo a"] == 1)
    machine.restart()
    assert answer(asked["Which size?"], ME, "large").status == "answered"
    run = ended(run_id)
    assert (run.status, run.answer, results_of(run)) == ("completed", "Large and blue.", ["blue", "large", "a"])
    assert (machine.ran["echo a"], len(machine.model.requests)) == (1, 2)
    assert events_of(run_id).count("interaction.resolved") == 2


def test_chat_message_answers_a_question_whose_execution_was_lost(machine: Machine) -> None:
    machine.model.script(Reply(calls=(ASK_COLOUR,)), Reply(text="Blue it is."))
    run_id = begin("paint", session_id="chat").run.run_id
    waiting(run_id, 1)
    machine.restart()
    reply = asyncio.run(whole_chat(begin("blue", session_id="chat")))
    assert reply["choices"][0]["message"]["content"] == "Blue it is."
    assert results_of(read_run(run_id, ME)) == ["blue"]


def test_run_tells_that_another_execution_carries_it_on(machine: Machine) -> None:
    machine.model.script(Reply(calls=(ASK_COLOUR,)), Reply(text="Blue it is."))
    run_id = begin("paint", session_id="shown").run.run_id
    assert run_view(read_run(run_id, ME))["executions"] == 1
    [question] = waiting(run_id, 1)
    machine.restart()
    answer(question, ME, "blue")
    shown = run_view(ended(run_id))
    assert (shown["status"], shown["executions"]) == ("completed", 2)
    assert shown["resumed_at"] > shown["created_at"]


# ---- tools in the middle of their work


def test_call_is_interrupted_when_its_tool_may_not_run_twice(machine: Machine) -> None:
    machine.model.script(Reply(calls=(probe_call("sleep", "once", 1.8), probe_call("echo", "b"))), Reply(text="Well."))
    run_id = begin("work", session_id="sleep").run.run_id
    until(lambda: machine.ran["sleep once"] == 1)
    machine.restart()
    run = ended(run_id)
    assert (run.status, run.answer, results_of(run)) == ("completed", "Well.", [_INTERRUPTED, "b"])
    assert machine.ran == {"sleep once": 1, "echo b": 1}
    assert (run.executions, len(machine.model.requests)) == (2, 2)


def test_call_runs_again_when_its_tool_is_idempotent(machine: Machine) -> None:
    machine.model.script(
        Reply(calls=(("steady", {"action": "sleep", "value": "on", "number": 1.8}),)), Reply(text="Ok.")
    )
    run_id = begin("work", "delegator", session_id="steady").run.run_id
    until(lambda: machine.ran["sleep on"] == 1)
    machine.restart()
    run = ended(run_id)
    assert (run.status, run.answer, results_of(run)) == ("completed", "Ok.", ["on"])
    assert (machine.ran, run.executions, len(machine.model.requests)) == ({"sleep on": 2}, 2, 2)


def test_model_is_asked_again_only_for_the_turn_in_whose_middle_the_run_was_lost(machine: Machine) -> None:
    machine.model.script(Reply(calls=(probe_call("echo", "d"),)), Reply(text="Slow.", first_delay_s=60))
    run_id = begin("think", session_id="thinking").run.run_id
    until(lambda: len(machine.model.requests) == 2)
    machine.model.script(Reply(text="There."))
    machine.restart()
    run = ended(run_id)
    assert (run.status, run.answer, run.executions) == ("completed", "There.", 2)
    assert (machine.ran, len(machine.model.requests)) == ({"echo d": 1}, 3)


# ---- agents that others called


def test_both_runs_go_on_when_a_called_agent_waited_for_a_person(machine: Machine) -> None:
    machine.model.script_for("delegate", Reply(calls=(("helper", {"task": "find it"}),)), Reply(text="Found."))
    machine.model.script_for("find it", Reply(calls=(probe_call("echo", "c"), ASK_COLOUR)), Reply(text="It is here."))
    run_id = begin("delegate", "delegator", session_id="sub").run.run_id
    [question] = waiting(run_id, 1)
    until(lambda: machine.ran["echo c"] == 1)
    machine.restart()
    answer(question, ME, "blue")
    run = ended(run_id)
    child = ended(sub_run_of(run.key, calls_of(run)[0].key))
    assert (run.status, run.answer, results_of(run)) == ("completed", "Found.", ["It is here."])
    assert (child.status, results_of(child)) == ("completed", ["c", "blue"])
    assert (run.executions, child.executions) == (2, 2)
    assert (machine.ran["echo c"], len(machine.model.requests)) == (1, 4)


# ---- plans


def test_plan_goes_on_when_a_step_of_it_waited_for_a_person(machine: Machine) -> None:
    plan = written([a_step("a"), a_step("b", "a")])
    machine.model.script_for("Make the plan.", Reply(text=plan))
    machine.model.script_for("The step: Title a", Reply(text="A."))
    machine.model.script_for("The step: Title b", Reply(calls=(probe_call("echo", "e"), ASK_COLOUR)), Reply(text="B."))
    machine.model.script_for("Answer the person now", Reply(text="All is done."))
    run_id = begin("A large task", "plan_by_tools", session_id="plan").run.run_id
    [question] = waiting(run_id, 1)
    until(lambda: machine.ran["echo e"] == 1)
    machine.restart()
    answer(question, ME, "blue")
    run = ended(run_id)
    assert (run.status, run.answer, results_of(run)) == ("completed", "All is done.", ["A.", "B."])
    assert (machine.ran["echo e"], len(machine.model.requests), run.executions) == (1, 5, 2)


def test_plan_is_carried_out_when_it_was_confirmed_after_its_run_was_lost(machine: Machine) -> None:
    machine.model.script_for("Make the plan.", Reply(text=written([a_step("a")])))
    machine.model.script_for("The step: Title a", Reply(text="A."))
    machine.model.script_for("Answer the person now", Reply(text="All is done."))
    run_id = begin("A large task", "plan_confirmed", session_id="confirmed").run.run_id
    [question] = waiting(run_id, 1)
    machine.restart()
    answer(question, ME, "approve")
    run = ended(run_id)
    assert (run.status, run.answer, len(machine.model.requests)) == ("completed", "All is done.", 3)
