"""Load and faults: hundreds of runs on the local stack while everything around them fails, and a count of what is lost.

Runs begin over HTTP and through the queue, each request and message possibly several times. Meanwhile processes of
functions are killed, functions are invoked again with what they were invoked with, ends of executions are told again,
two processes in three have a clock that is an hour off, and the model answers with 429 and 500, cuts its stream, stalls
or is slow. `tasks` says what each run shall come to, `verdict` compares that with the record, the journal and a log of
the effects. `reasons` lists why a run may fail all the same, `bounds` how often, and which faults must have come.
"""
