"""The jobs that a message asks for: itself one, or events that rules make into jobs."""

from stepagent.api.body import read_object
from stepagent.api.requests import JobFile, JobRequest, read_job_request
from stepagent.errors import InvalidRequest
from stepagent.settings import settings
from stepagent.store.inbox import read_object_text
from stepagent.triggers.events import Event, events_in
from stepagent.triggers.rules import TRIGGERS_FILE, Rule, load_rules, rule_for
from stepagent.triggers.templates import fill, in_full, in_one_line

_MAX_SESSION_CHARS = 128
_MAX_METADATA_CHARS = 512
_SHOWN_CHARS = 80


def read_message(body: bytes) -> list[JobRequest] | list[Event]:
    """The job in a message, or its events, mostly one; none in the message by which S3 tries whether it may send.

    Raises:
        BodyTooLarge: more than 4 MB.
        InvalidRequest: it is no job and no event.
    """
    events = events_in(read_object(body))
    return [read_job_request(body)] if events is None else events


def job_of(event: Event) -> JobRequest:
    """What the rules make of an event.

    Raises:
        InvalidRequest: no rule is for it, or its rule does not fit it.
        NotFound: the object that its rule attaches is gone, or another one by now.
        RecordUnavailable: that object cannot be read now.
    """
    return request_of(event, _rule_for(event))


def request_of(event: Event, rule: Rule) -> JobRequest:
    """What a rule makes of an event. Raises as `job_of` does."""
    text = fill(rule.input, event.content, in_one_line)
    if not text.strip():
        raise InvalidRequest(f"The input of rule {rule.name!r} is blank for this event.", "input", "rule_does_not_fit")
    return JobRequest(
        agent=rule.agent,
        input=text,
        session_id=_session(rule, event),
        message_id=event.key,
        files=[*_files(rule, event), *_object_text(rule, event)],
        reply_to=rule.reply_to,
        metadata={"rule": rule.name, "event_id": event.id[:_MAX_METADATA_CHARS]},
    )


def _rule_for(event: Event) -> Rule:
    rule = rule_for(event, load_rules(settings().catalog_dir / TRIGGERS_FILE))
    if rule is None:
        source, kind = (event.content[name][:_SHOWN_CHARS] for name in ("source", "detail-type"))
        why = f"No rule of {TRIGGERS_FILE} is for this event (source {source!r}, detail-type {kind!r})."
        raise InvalidRequest(why, None, "no_matching_rule")
    return rule


def _session(rule: Rule, event: Event) -> str | None:
    if rule.session is None:
        return None
    session = fill(rule.session, event.content, in_one_line)
    if not 1 <= len(session) <= _MAX_SESSION_CHARS:
        why = f"The session of rule {rule.name!r} has {len(session)} characters; 1 to {_MAX_SESSION_CHARS} are taken."
        raise InvalidRequest(why, "session", "rule_does_not_fit")
    return session


def _files(rule: Rule, event: Event) -> list[JobFile]:
    return [JobFile(name=name, text=fill(text, event.content, in_full)) for name, text in rule.files.items()]


def _object_text(rule: Rule, event: Event) -> list[JobFile]:
    """The beginning of the object that the event tells of, under the last part of its key."""
    if rule.object_text_kb is None:
        return []
    known = event.object
    if not known or event.bucket != settings().inbox_bucket:
        why = f"Rule {rule.name!r} attaches objects of the inbox bucket, and this event tells of none."
        raise InvalidRequest(why, "object_text_kb", "rule_does_not_fit")
    key = str(known.get("key"))
    text = read_object_text(key, str(known.get("etag", "")), rule.object_text_kb * 1024)
    return [JobFile(name=key.rpartition("/")[2][-255:] or "object", text=text)]
