"""Fields of a chat completion beside its messages."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from stepagent.answer_form import AnswerForm
from stepagent.api.body import Body, OpenBody

Metadata = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16, description="Kept with the run and shown with it."),
]
StopText = Annotated[str, Field(min_length=1, max_length=256)]


class StreamOptions(Body):
    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class TextFormat(Body):
    type: Literal["text"]

    @property
    def form(self) -> AnswerForm | None:
        return None


class JsonObjectFormat(Body):
    type: Literal["json_object"]

    @property
    def form(self) -> AnswerForm | None:
        return AnswerForm()


class JsonSchema(Body):
    name: str
    description: str = ""
    schema_: dict[str, Any] = Field({}, alias="schema")
    strict: bool | None = None

    @model_validator(mode="after")
    def _is_a_form(self) -> Self:
        try:
            flaw = self.form.flaw
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            raise ValueError(f"{problem['loc'][0]}: {problem['msg']}") from error
        if flaw:
            raise ValueError(f"schema: {flaw}")
        return self

    @property
    def form(self) -> AnswerForm:
        return AnswerForm(name=self.name, description=self.description, json_schema=self.schema_, strict=self.strict)


class JsonSchemaFormat(Body):
    type: Literal["json_schema"]
    json_schema: JsonSchema

    @property
    def form(self) -> AnswerForm | None:
        return self.json_schema.form


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]


class NotOffered(OpenBody):
    """What OpenAI offers and we do not. Each is taken at the value that asks for nothing, which many clients send.

    An agent's tools are the deployment's, so a client's own would never be called.
    """

    tools: list[Any] = Field([], max_length=0)
    tool_choice: Literal["auto", "none"] = "auto"
    parallel_tool_calls: Literal[True] = True
    functions: list[Any] = Field([], max_length=0)
    function_call: Literal["auto", "none"] = "auto"
    n: int = Field(1, ge=1, le=1)
    logprobs: Literal[False] = False
    top_logprobs: int = Field(0, ge=0, le=0)
    logit_bias: dict[str, Any] = Field({}, max_length=0)
    modalities: list[Literal["text"]] = Field(["text"], min_length=1, max_length=1)
    audio: None = None
    prediction: None = None
    moderation: None = None
    web_search_options: None = None
    verbosity: Literal["medium"] = "medium"
    service_tier: Literal["auto", "default"] = "auto"
    store: Literal[False] = False
    variables: dict[str, Any] = Field({}, max_length=0)
