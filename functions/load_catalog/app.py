"""The custom resource behind the catalog: brings its files into the record on each deploy."""

from typing import Any

from cloudformation import StackRequest, serve

from stepagent.loading import load
from stepagent.observe import observed
from stepagent.settings import settings


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return serve(StackRequest.model_validate(event), lambda: load(settings().catalog_dir))
