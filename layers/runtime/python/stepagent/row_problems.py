"""What is wrong with a row that a person wrote: places as they were written, and for a misspelt field the one meant."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError

_MOST = 5  # of one row: looking for what was meant takes time
_NAME_CHARS = 64  # of each part of a place: a client may write anything there

Model = type[BaseModel]


class Problem(NamedTuple):
    """The message is half a sentence, and quotes no value: that may be a secret. `field` is "" for the whole row."""

    field: str
    message: str


def in_words(error: ValidationError, kind: Model) -> str:
    """What is wrong, in one line."""
    return "; ".join(f"{field or 'it'}: {message}" for field, message in row_problems(error, kind))


def row_problems(error: ValidationError, kind: Model) -> list[Problem]:
    """The first things wrong with a row of this kind; unknown fields lead, since others may be missing for them."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return [_problem(each, kind) for each in sorted(found, key=lambda each: not _is_unknown(each))[:_MOST]]


def _problem(problem: Any, kind: Model) -> Problem:
    if not _is_unknown(problem):
        place, _ = _follow(problem["loc"], kind)
        return Problem(".".join(place), problem["msg"].removeprefix("Value error, "))
    *above, name = problem["loc"]
    place, models = _follow(above, kind)
    return Problem(".".join([*place, _shown(name)]), f"there is no such field{_meant(_shown(name), models)}")


def _is_unknown(problem: Any) -> bool:
    return bool(problem["type"] == "extra_forbidden")


def _meant(name: str, models: Sequence[Model]) -> str:
    fields = list(dict.fromkeys(field for model in models for field in model.model_fields))
    if near := get_close_matches(name.casefold(), fields, n=1):
        return f", perhaps you mean {near[0]}"
    return f", there are {', '.join(fields)}" if fields else ""


def _follow(place: Sequence[int | str], kind: Model) -> tuple[list[str], Sequence[Model]]:
    """A place as its author knows it, and of which kinds what stands there may be.

    pydantic adds the members of a union that it tried, which stand in no row.
    """
    written: list[str] = []
    models: Sequence[Model] = [kind]
    is_mapping = False
    for part in place:
        field = next((model.model_fields[str(part)] for model in models if str(part) in model.model_fields), None)
        if field and not is_mapping:
            models, is_mapping = list(_models_in(field.annotation)), get_origin(field.annotation) is dict
        elif is_mapping or isinstance(part, int):
            is_mapping = False  # the name of an entry may be that of a field
        else:
            models = [model for model in models if _is_called(part, model)] or models
            continue
        written.append(_shown(part))
    return written, models


def _models_in(annotation: Any) -> Iterator[Model]:
    """The data classes that a value of this type may be, or hold as a list or a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)


def _is_called(member: str, model: Model) -> bool:
    """Whether pydantic calls a member of a union so: by its `type`."""
    return "type" in model.model_fields and member in get_args(model.model_fields["type"].annotation)


def _shown(part: int | str) -> str:
    return str(part)[:_NAME_CHARS]
