"""The log: one line per event, to a file and to the console.

Keys stay in the order in which they were said, so that one `grep '<server>.*<words>'` finds
what became of a server. Values of secrets are never written. What uses `logging` (the
libraries, and some of ours) comes out in the same form; requests are not logged one by one.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

__all__ = ["start", "without_secrets"]

# A key with one of these in its name has a value that nobody should read.
SECRET_WORDS = ("password", "token", "secret", "authorization", "adminpass")
HIDDEN = "…"
QUIET_LIBRARIES = ("alembic", "httpx", "httpcore", "uvicorn", "sqlalchemy", "asyncio")


def start(file: Path | None, console: TextIO | None = None, level: int = logging.INFO) -> None:
    """From now on whatever is logged goes to `file` and `console` (standard error)."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper("iso", utc=True),
        without_secrets,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    for handler in _handlers(file, console or sys.stderr, shared):
        root.addHandler(handler)
    root.setLevel(level)
    for name in QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)


def _handlers(file: Path | None, console: TextIO, shared: list[Processor]) -> list[logging.Handler]:
    handlers: list[logging.Handler] = [logging.StreamHandler(console)]
    if file is not None:
        handlers.append(logging.FileHandler(file, encoding="utf-8"))
    form = _Once(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            one_line,
        ],
    )
    for handler in handlers:
        handler.setFormatter(form)
    return handlers


class _Once(structlog.stdlib.ProcessorFormatter):
    """Makes a line of an event once, for all who write it."""

    def format(self, record: logging.LogRecord) -> str:
        line: str | None = getattr(record, "line", None)
        if line is None:
            line = record.line = super().format(record)
        return line


def without_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Hide what is under the name of a secret, at any depth."""
    return dict(_shown(event))


def _shown(values: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: HIDDEN if _is_secret(key) else _deeper(value) for key, value in values.items()}


def _deeper(value: Any) -> Any:
    if isinstance(value, dict):
        return _shown(value)
    return [_deeper(each) for each in value] if isinstance(value, (list, tuple)) else value


@lru_cache(maxsize=1024)
def _is_secret(key: str) -> bool:
    return any(word in key.lower() for word in SECRET_WORDS)


def one_line(_: WrappedLogger, __: str, event: EventDict) -> str:
    """When, how bad, what; then every key in the order in which it was said."""
    moment, level, what = event.pop("timestamp"), event.pop("level"), event.pop("event")
    pairs = [f"{key}={_word(value)}" for key, value in event.items() if value not in ("", None)]
    return " ".join([f"{moment} {level:<7} {_flat(str(what))}", *pairs])


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    text = _flat(text)
    return f'"{text}"' if " " in text or not text else text


def _flat(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
