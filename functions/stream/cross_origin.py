"""The application as pages of other origins see it."""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from stepagent.api.cors import ALLOWED_HEADERS, ALLOWED_METHODS, EXPOSED_HEADERS, PREFLIGHT_S, allowed_origins


def with_cors(app: ASGIApp) -> ASGIApp:
    """Around the whole application, so that its errors can be read as well."""
    origins = allowed_origins()
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=ALLOWED_METHODS,
        allow_headers=ALLOWED_HEADERS,
        expose_headers=EXPOSED_HEADERS,
        max_age=PREFLIGHT_S,
    )
