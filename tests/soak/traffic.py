"""What clients, senders of jobs and people do: a task is brought to the product, its question answered, its end met."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from stepagent.api.beginning import session_key_of
from stepagent.runs import ENDED, InteractionId, Principal, Run, RunId, RunKey
from stepagent.store.runs import load_run
from tests.soak.faults import Faults
from tests.soak.stack import Soaked
from tests.soak.tasks import Task

Json = dict[str, Any]

_LOOK_S = 1.0
_PAUSE_S, _MOST_PAUSE_S = 1.0, 16.0  # before a client tries again: twice as long each time, up to the most
_MOST_FOLLOWERS = 2  # of one run: each looks at the journal again and again


def run_of(task: Task) -> RunKey:
    """The one run that a task may have: the first of a session of its own."""
    owner = Principal("queue" if task.entry == "job" else "local")
    return RunKey(session_key_of(owner, _session(task)), 1)


def _session(task: Task) -> str:
    return f"soak-{task.label}"


class Traffic:
    """Brings tasks to the product and sees to their ends, each in a thread of its caller's."""

    def __init__(self, stack: Soaked, faults: Faults, queue_url: str) -> None:
        self.wrong: list[str] = []  # answers to requests that no client would understand
        self.live: dict[int, RunId] = {}  # runs that go on now, by the number of their task
        self._stack, self._faults, self._queue_url = stack, faults, queue_url
        self._sqs = stack.loop.client("sqs")
        self._deadline = 0.0

    def play(self, task: Task, deadline: float) -> None:
        """Returns when the run of the task has ended, or at the deadline (of `time.monotonic`)."""
        key = run_of(task)
        self._deadline = deadline
        follower = threading.Thread(target=self._begin, args=(task,), daemon=True)
        follower.start()
        asked = set[InteractionId]()
        while time.monotonic() < deadline and not _has_ended(run := load_run(key)):
            if run:
                self.live[task.number] = run.run_id
                for question in set(run.pending) - asked:
                    asked.add(question)
                    self._answer(task, question)
            time.sleep(_LOOK_S)
        self.live.pop(task.number, None)
        follower.join()

    def _begin(self, task: Task) -> None:
        match task.entry:
            case "chat":
                copies = min(_MOST_FOLLOWERS, self._copies("request repeated", task))
                self._at_once(copies, lambda: self._chat(task))
            case "run":
                self._at_once(self._copies("request repeated", task), lambda: self._start(task))
            case "job":
                self._send(task)

    def _chat(self, task: Task) -> None:
        answer = self._post(task, "/chat/completions", _chat(task, task.question) | _strategy(task))
        if answer and answer.headers.get("X-StepAgent-Run-Id") != run_of(task).run_id:
            self.wrong.append(f"{task.label}: a chat was answered by {answer.headers.get('X-StepAgent-Run-Id')}")

    def _start(self, task: Task) -> None:
        answer = self._post(task, "/runs", {**_job(task), **_strategy(task)})
        if answer and answer.json().get("run_id") != run_of(task).run_id:
            self.wrong.append(f"{task.label}: a request began {answer.text[:200]}")

    def _send(self, task: Task) -> None:
        job = _job(task) | {"message_id": task.label}
        for _ in range(self._copies("message repeated", task)):
            self._sqs.send_message(QueueUrl=self._queue_url, MessageBody=json.dumps(job))

    def _answer(self, task: Task, question: InteractionId) -> None:
        """By the same way by which the run began: as a message in the chat, or to the question itself."""
        value = next(task.written(part) for part in task.parts if part.way == "ask")
        path, body = f"/interactions/{question}", Json(answer=value)
        if task.entry == "chat":
            path, body = "/chat/completions", _chat(task, value) | {"interaction_id": question}
        copies = min(_MOST_FOLLOWERS, self._copies("answer repeated", task))
        self._at_once(copies, lambda: self._post(task, path, body, f"answer-{task.label}"))

    def _copies(self, kind: str, task: Task) -> int:
        copies = self._faults.copies(kind, task.number)
        self._faults.count(kind, copies - 1)
        return copies

    def _post(self, task: Task, path: str, body: Json, key: str = "") -> httpx.Response | None:
        """The answer, once there is one: a client tries again where a server failed. None where none came."""
        headers, pause_s = {"Idempotency-Key": key or f"begin-{task.label}"}, _PAUSE_S
        while time.monotonic() < self._deadline:
            answer = self._posted(path, body, headers)
            if answer is None:
                self._faults.count("request unanswered, sent again")
            elif answer.status_code < 300 or "X-StepAgent-Run-Id" in answer.headers:  # a run that failed is one, too
                return answer
            elif answer.status_code < 500:
                self.wrong.append(f"{task.label}: POST {path}: {answer.status_code} {answer.text[:300]}")
                return None
            else:
                self._faults.count(f"request answered with {answer.status_code}, sent again")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)
        self.wrong.append(f"{task.label}: POST {path} was not answered")
        return None

    def _posted(self, path: str, body: Json, headers: dict[str, str]) -> httpx.Response | None:
        try:
            return self._stack.http.post(path, json=body, headers=headers)
        except httpx.TransportError:
            return None

    @staticmethod
    def _at_once(copies: int, act: Callable[[], object]) -> None:
        if copies == 1:
            act()
            return
        with ThreadPoolExecutor(copies) as pool:
            for done in [pool.submit(act) for _ in range(copies)]:
                done.result()


def _chat(task: Task, text: str) -> Json:
    return {"model": "soaker", "messages": [{"role": "user", "content": text}], "session_id": _session(task)}


def _job(task: Task) -> Json:
    return {"agent": "soaker", "input": task.question, "session_id": _session(task)}


def _strategy(task: Task) -> Json:
    return {"strategy": "plan"} if task.kind == "plan" else {}


def _has_ended(run: Run | None) -> bool:
    return run is not None and run.status in ENDED
