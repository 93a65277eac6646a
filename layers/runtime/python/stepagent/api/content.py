"""Messages as clients send them: texts, images and documents."""

from base64 import b64decode
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from stepagent.api.body import Body, Form
from stepagent.errors import InvalidRequest
from stepagent.messages import AssistantMessage, AttachedFile, UserMessage

_FORMS = (Form("a text"), Form("a list of parts"))
