"""What runs of a few shapes use of AWS, counted on the local stack while a model speaks at the pace of real ones."""

import asyncio
import time
from collections import Counter as Tally
from typing import Literal, NamedTuple

from bench.batches import BatchUsage, count_batch
from bench.counting import Counter, counted_stack
from bench.growth import by_turn
from bench.model import ANSWER, PERSON, Speech, TimedModel, question
from bench.progress import Steps
from bench.spans import Span
from bench.stack import ME, request, wait_end
from stepagent.api.beginning import Following
from stepagent.api.chat import whole_chat
from stepagent.api.service import say, start_job
from stepagent.runs import RunId
from tests.local_loop import LocalLoop

# Half a second to the first token, then 50 a second; the answer has 200.
SPEECH = Speech(first_token_s=0.5, each_token_s=0.02, token_chars=4, answer=(f"{ANSWER} " * 200)[:800])


class Shape(NamedTuple):
    """A kind of run. A `chat` is followed by its client, a `job` comes from the queue and is not."""

    name: str
    entry: Literal["chat", "job"]
    turns: int
    calls: int
    asks: int = 0

    @property
    def text(self) -> str:
        return question(self.turns, self.calls, PERSON if self.asks else self.name)


SHAPES = (
    Shape("chat: an answer", "chat", 0, 0),
    Shape("chat: 3 turns of 1 call, an answer", "chat", 3, 1),
    Shape("job: 10 turns of 3 calls, an answer", "job", 10, 3),
    Shape("job: a question to a person, who answers a day later, an answer", "job", 1, 1, 1),
)


class Usage(NamedTuple):
    """What one run used."""

    shape: Shape
    model_s: float  # that the model spoke
    transitions: int  # state entries
    read_units: float
    write_units: float
    s3_reads: int
    s3_writes: int
    events: int  # put on a bus
    conversation_bytes: int  # as the last request to the model held it


def count(quick: bool, steps: Steps) -> tuple[list[Usage], BatchUsage]:
    """The usage of one run of each shape, and what a batch uses beside its runs."""
    speech = Speech(answer=SPEECH.answer) if quick else SPEECH
    steps.expect(len(SHAPES) + 1)
    with TimedModel(speech) as model, counted_stack(model.base_url) as (loop, counter):
        counter.wait_until_quiet()
        used = []
        for shape in SHAPES:
            steps.begin(shape.name)
            used.append(_count(shape, model, loop, counter))
        steps.begin("a batch")
        return used, count_batch(quick, model, loop, counter)


def _count(shape: Shape, model: TimedModel, loop: LocalLoop, counter: Counter) -> Usage:
    """Begins and ends with a stack that is quiet."""
    began = time.time()
    run_id = _run(shape, loop, counter)
    counter.wait_until_quiet()
    counted = counter.within(Span(began, time.time()))
    operations = Tally(each.operation for each in counted)
    turns = by_turn(loop.history(run_id))
    replies = model.replies_to(shape.text, shape.turns + 1)
    return Usage(
        shape=shape,
        model_s=round(sum(reply.ended - reply.began for reply in replies), 2),
        transitions=sum(entries for entries, _, _ in turns) + 2 * shape.asks,  # back to `Route`, and what follows there
        read_units=sum(each.read_units for each in counted),
        write_units=sum(each.write_units for each in counted),
        s3_reads=operations["S3 GET"] + operations["S3 HEAD"],
        s3_writes=operations["S3 PUT"],
        events=operations["PutEvents"],
        conversation_bytes=model.request_bytes[shape.text],
    )


def _run(shape: Shape, loop: LocalLoop, counter: Counter) -> RunId:
    """One run, carried out as its function would: this process stands for `stream`, `api` and `ingest`."""
    asked = request(shape.name, shape.text)
    if shape.entry == "chat":
        following = say(asked, ME)
        asyncio.run(_follow(following))
        wait_end(loop, following.run.run_id)
        return following.run.run_id
    run = start_job(asked, ME, shape.name)
    if shape.asks:
        counter.wait_until_quiet()  # now it waits
        say(request(shape.name, "The first."), ME)
    wait_end(loop, run.run_id)
    return run.run_id


async def _follow(following: Following) -> None:
    reply = await whole_chat(following)
    if not reply["choices"][0]["message"]["content"].startswith(ANSWER):
        raise RuntimeError(f"{following.run.run_id} ended with {reply}")
