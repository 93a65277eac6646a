"""The environment as a typed model: the only place that reads it."""

import os
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepagent.errors import ConfigurationError


class Settings(BaseModel):
    """What the template gives to the functions. A function has the settings that it needs, so most are optional."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    record_table: str = Field("", validation_alias="RECORD_TABLE")
    journal_table: str = Field("", validation_alias="JOURNAL_TABLE")
    bucket: str = Field("", validation_alias="BUCKET")
    journal_days: int = Field(30, ge=1, validation_alias="JOURNAL_DAYS")
    state_machine_arn: str = Field("", validation_alias="STATE_MACHINE_ARN")
    plan_state_machine_arn: str = Field("", validation_alias="PLAN_STATE_MACHINE_ARN")
    batch_state_machine_arn: str = Field("", validation_alias="BATCH_STATE_MACHINE_ARN")
    catalog_dir: Path = Field(Path("/opt"), validation_alias="CATALOG_DIR")
    api_key_hashes: str = Field("", validation_alias="API_KEY_HASHES")
    jwt_issuer: str = Field("", validation_alias="JWT_ISSUER")
    jwt_audience: str = Field("", validation_alias="JWT_AUDIENCE")
    jwt_principal_claim: str = Field("sub", min_length=1, validation_alias="JWT_PRINCIPAL_CLAIM")
    jwt_scope_claim: str = Field("", validation_alias="JWT_SCOPE_CLAIM")
    shared_usage_key: str = Field("", validation_alias="SHARED_USAGE_KEY")
    ingest_principal: str = Field("queue", min_length=1, validation_alias="INGEST_PRINCIPAL")
    ingest_queue_url: str = Field("", validation_alias="INGEST_QUEUE_URL")
    ingest_dead_letter_queue_url: str = Field("", validation_alias="INGEST_DEAD_LETTER_QUEUE_URL")
    ingest_fifo_queue_url: str = Field("", validation_alias="INGEST_FIFO_QUEUE_URL")
    ingest_fifo_dead_letter_queue_url: str = Field("", validation_alias="INGEST_FIFO_DEAD_LETTER_QUEUE_URL")
    inbox_bucket: str = Field("", validation_alias="INBOX_BUCKET")
    documents_prefix: str = Field("", validation_alias="DOCUMENTS_PREFIX")
    reply_queue_url: str = Field("", validation_alias="REPLY_QUEUE_URL")
    reply_dead_letter_queue_url: str = Field("", validation_alias="REPLY_DEAD_LETTER_QUEUE_URL")
    reply_queue_arns: str = Field("", validation_alias="REPLY_QUEUE_ARNS")
    reply_object_arns: str = Field("", validation_alias="REPLY_OBJECT_ARNS")
    webhook_allowed_hosts: str = Field("", validation_alias="WEBHOOK_ALLOWED_HOSTS")
    webhook_secret_arn: str = Field("", validation_alias="WEBHOOK_SECRET_ARN")
    event_bus_name: str = Field("", validation_alias="EVENT_BUS_NAME")
    reminder_group: str = Field("", validation_alias="REMINDER_GROUP")
    remind_function_arn: str = Field("", validation_alias="REMIND_FUNCTION_ARN")
    remind_role_arn: str = Field("", validation_alias="REMIND_ROLE_ARN")
    unheard_events_queue_arn: str = Field("", validation_alias="UNHEARD_EVENTS_QUEUE_ARN")
    mcp_function: str = Field("", validation_alias="MCP_FUNCTION")
    cors_origins: str = Field("", validation_alias="CORS_ORIGINS")
    http_allowed_hosts: str = Field("", validation_alias="HTTP_ALLOWED_HOSTS")
    http_allow_private: bool = Field(False, validation_alias="HTTP_ALLOW_PRIVATE")


@cache
def settings() -> Settings:
    """Reads the environment once a process.

    Raises:
        ConfigurationError: a setting has a value that does not fit.
    """
    try:
        return Settings.model_validate(dict(os.environ))
    except ValidationError as error:
        names = ", ".join(str(problem["loc"][0]) for problem in error.errors())
        raise ConfigurationError(f"These environment variables have values that do not fit: {names}.") from error
