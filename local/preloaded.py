"""What is loaded once for all functions, in the process that theirs are forked from (see `fork_server`).

Only libraries that read no environment when they are imported: whatever does, such as the product's own library, each
function imports in its own environment.
"""

import functools
import gc

import aws_lambda_powertools  # noqa: F401
import boto3.dynamodb.types
import botocore.session
import jsonschema  # noqa: F401
import yaml  # noqa: F401
from openai import OpenAI

# Sessions share what they read: the parsed descriptions of services would be half of a function's own memory.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)
_session = boto3.session.Session("none", "none", region_name="us-east-1")  # keys, for else it would look for some
_session.client("dynamodb")
_session.client("s3")

OpenAI(base_url="http://127.0.0.1", api_key="none").chat.completions  # noqa: B018  # imports when it is asked

gc.freeze()  # a collection in a forked process would touch, and so copy, all of it
