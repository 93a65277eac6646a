"""Results of runs, sent to where the request wanted them: a queue, a bucket, or a server that takes webhooks.

A reply is a promise, an event on the bus a hint. So the end of a run goes onto a queue of the stack before anything
counts as told (`promise`), and a function of its own sends from there, as often as it takes (`delivery`). Each result
arrives at least once, and bears the same id each time.
"""
