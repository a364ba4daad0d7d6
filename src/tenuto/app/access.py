"""Who may come in, put together from settings: the door of this process, and the token that it shows to others.

Secrets and tokens stand in settings or in files of their own. Nothing of them is ever part of a message.
"""

from __future__ import annotations

import ipaddress
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tenuto.adapters.local.clock import SystemClock
from tenuto.model.errors import InvalidInput, Unavailable
from tenuto.ports.access import Authorize, Scope
from tenuto.runtime.logging import get_logger
from tenuto.settings.tree import SECRET_MIN, Auth

if TYPE_CHECKING:
    from tenuto.adapters.jwt import Claims

FILE_MAX = 65_536
CLUSTER = "the cluster extra: pip install 'tenuto[cluster]' (from a checkout: '.[cluster]')"
"""What to install where a package is missing."""
MADE_BY = "such as `openssl rand -hex 32` prints"

_log = get_logger("access")


def door_of(auth: Auth, scope: Scope = Scope.ADMIN) -> Authorize | None:
    """What this process asks of who comes; None: there is no secret, so it can ask nothing. Raises as `doors_of`."""
    doors = doors_of(auth)
    return None if doors is None else doors[scope]


def doors_of(auth: Auth) -> Mapping[Scope, Authorize] | None:
    """The same by the scope that those who come there have as a rule: a refusal names its token. One set of secrets.

    Raises:
        InvalidInput: both a secret and a file; a file that cannot be read, or holds none that is long enough.
    """
    secrets = _secrets_of(auth)
    if secrets is None:
        return None
    _need("auth.secret")
    from tenuto.adapters.jwt import authorizer

    return {scope: authorizer(secrets, SystemClock().now, scope) for scope in Scope}


def must_be_guarded(listeners: Iterable[tuple[str, str]], *, guarded: bool) -> None:
    """Raise InvalidInput for what others can reach without a token. `listeners`: (option, host)."""
    for option, host in listeners:
        if not guarded and not is_loopback(host):
            raise InvalidInput(
                f"{host} can be reached by others, and there is no secret to tell them apart by; set"
                f" TENUTO_AUTH_SECRET ({SECRET_MIN} bytes or more, {MADE_BY}), or listen on 127.0.0.1",
                path=option,
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def create_token(
    auth: Auth, scope: Scope, *, lasts_us: int, name: str = "", queues: Sequence[str] = ()
) -> str:
    """A token for somebody else. Raises InvalidInput: there is no secret to sign it with."""
    secrets = _secrets_of(auth)
    if secrets is None:
        raise InvalidInput(
            f"there is no secret to sign it with; set TENUTO_AUTH_SECRET ({SECRET_MIN} bytes or more, "
            f"{MADE_BY}) as the servers have it"
        )
    _need("a token")
    from tenuto.adapters.jwt import Claims, sign

    at = SystemClock().now()
    claims = Claims(scope, at + lasts_us, name, frozenset(queues) if queues else None)
    return sign(claims, secrets()[0], at=at)


def peek_token(token: str) -> Claims:
    """What a token says of itself, believed or not. Raises Denied for what is none of ours."""
    _need("a token")
    from tenuto.adapters.jwt import peek

    return peek(token)


def token_of(auth: Auth) -> Callable[[], str | None]:
    """What this process shows a server; a file is read again each time, since tokens are renewed.

    The call raises InvalidInput when the file cannot be read or holds none.
    """
    if auth.token and auth.token_file:
        raise InvalidInput(_both("token"), path="auth.token_file")
    if not auth.token_file:
        return lambda: auth.token.strip() or None

    def read() -> str | None:
        lines = _lines(Path(auth.token_file), "auth.token_file")
        if len(lines) != 1:
            raise InvalidInput(
                f"{auth.token_file} holds {len(lines) or 'no'} tokens; put one there",
                path="auth.token_file",
            )
        return lines[0]

    return read


def _secrets_of(auth: Auth) -> Callable[[], Sequence[str]] | None:
    if auth.secret and auth.secret_file:
        raise InvalidInput(_both("secret"), path="auth.secret_file")
    if auth.secret_file:
        return _SecretFile(Path(auth.secret_file)).now
    if not auth.secret:
        return None
    secrets = [each.strip() for each in auth.secret.split(",")]
    return lambda: secrets


class _SecretFile:
    """Secrets of a file, the newest first. They change without a restart: the file is read again when it is another."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._secrets = _read_secrets(path)

    def now(self) -> Sequence[str]:
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._secrets = _read_secrets(self._path)
            except InvalidInput as error:
                _log.error("secrets_not_read", reason=str(error), instead="those from before hold")
            else:
                _log.info("secrets_read", file=str(self._path), count=len(self._secrets))
        return self._secrets


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read_secrets(path: Path) -> list[str]:
    lines = _lines(path, "auth.secret_file")
    if not lines:
        raise InvalidInput(
            f"{path} is empty; put a secret there, {MADE_BY}", path="auth.secret_file"
        )
    if any(len(each.encode()) < SECRET_MIN for each in lines):
        raise InvalidInput(
            f"{path} holds a secret that is too short; give {SECRET_MIN} bytes or more, {MADE_BY}",
            path="auth.secret_file",
        )
    return lines


def _lines(path: Path, setting: str) -> list[str]:
    """What stands in a small file, line by line."""
    try:
        with path.open("rb") as file:
            text = file.read(FILE_MAX + 1).decode()
            mode = path.stat().st_mode
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not text", path=setting) from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}", path=setting) from None
    if mode & stat.S_IWOTH:
        raise InvalidInput(
            f"anybody may write {path}; take that away: chmod o-w {path}", path=setting
        )
    return [line.strip() for line in text.splitlines() if line.strip()]


def _both(what: str) -> str:
    return f"there is auth.{what}, too; keep one of them"


def _need(what: str) -> None:
    try:
        import jwt  # noqa: F401 - only whether it is there
    except ImportError:
        raise Unavailable(f"{what} needs {CLUSTER}") from None
