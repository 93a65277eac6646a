#!/bin/sh
# The Lambda Web Adapter starts this in place of the runtime, which would have added the layers to the path.
export PYTHONPATH="/opt/python:$PYTHONPATH"
exec python -m uvicorn app:served --host 127.0.0.1 --port "$AWS_LWA_PORT" --no-access-log
