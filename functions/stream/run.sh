#!/bin/sh
# The Lambda Web Adapter starts this and passes requests to the port it names.
exec python -m uvicorn app:app --host 127.0.0.1 --port "$AWS_LWA_PORT" --no-access-log
