"""What a cluster is deployed with: the files are sound, and what they say is what the program understands.

There is no Docker engine where this runs: images are not built here. What of them can be known without one is.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml
from tests.support import commands

from tenuto.cli.commands import app
from tenuto.model.instants import parse_duration
from tenuto.settings import load
from tenuto.settings.tree import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
VARIABLE = re.compile(r"\bTENUTO_[A-Z_]+\b")
SUBSTITUTED = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")
GIVEN = {"POSTGRES_PASSWORD": "p" * 48, "TENUTO_AUTH_SECRET": "s" * 64}

KNOWN_COMMANDS = {
    commands.UPGRADE,
    commands.SERVER,
    commands.worker("app.py"),
    commands.language_server("0.0.0.0:50061"),
    commands.language_server("127.0.0.1:50061"),
    commands.token("worker", name="compose", expires="90d"),
}


def parsed(words: list[str]) -> str:
    """The command line as the program reads it, a word that it does not know is an error; answers its first verb."""
    command: Any = typer.main.get_command(app)
    context: Any = command.make_context("tenuto", list(words))
    names: list[str] = []
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
        names.append(name)
    return names[0]


def of_tenuto(words: list[str]) -> list[list[str]]:
    """The tenuto commands of a container's or unit's words; those in a shell's line, too."""
    if words[:2] != ["sh", "-c"]:
        return [words]
    parts = shlex.shlex(words[2], posix=True, punctuation_chars=True)
    parts.whitespace_split = True
    found: list[list[str]] = []
    for word in parts:
        if word == "tenuto":
            found.append([])
        elif set(word) <= set("&|;<>") and found:
            break
        elif found:
            found[-1].append(word)
    return found


# --- compose.yaml ------------------------------------------------------------------------------------

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
OURS = {name: each for name, each in COMPOSE["services"].items() if "build" in each}
WORDS = {"type": "array", "items": {"type": "string"}}
TEXT = {"type": "string"}
DURATION = {"type": "string", "pattern": "^[0-9]+[smh]$"}
SERVICE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "image": TEXT,
        "build": TEXT,
        "init": {"type": "boolean"},
        "read_only": {"type": "boolean"},
        "tmpfs": WORDS,
        "cap_drop": WORDS,
        "security_opt": WORDS,
        "stop_grace_period": DURATION,
        "logging": {
            "type": "object",
            "properties": {"driver": TEXT, "options": {"additionalProperties": TEXT}},
        },
        "restart": {"enum": ["unless-stopped", "on-failure", "always", "no"]},
        "environment": {"type": "object", "additionalProperties": TEXT},
        "entrypoint": WORDS,
        "command": WORDS,
        "shm_size": {"type": "string", "pattern": "^[0-9]+[kmg]b?$"},
        "mem_limit": {"type": "string", "pattern": "^[0-9]+[kmg]b?$"},
        "pids_limit": {"type": "integer"},
        "network_mode": {"const": "none"},
        "networks": WORDS,
        "volumes": WORDS,
        "ports": WORDS,
        "deploy": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}},
            "additionalProperties": False,
        },
        "healthcheck": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "test": {**WORDS, "contains": {"enum": ["CMD", "CMD-SHELL"]}},
                "interval": DURATION,
                "timeout": DURATION,
                "retries": {"type": "integer"},
                "disable": {"const": True},
            },
        },
        "depends_on": {
            "additionalProperties": {
                "type": "object",
                "required": ["condition"],
                "additionalProperties": False,
                "properties": {
                    "condition": {
                        "enum": [
                            "service_started",
                            "service_healthy",
                            "service_completed_successfully",
                        ]
                    }
                },
            }
        },
    },
}


def substituted(text: str) -> str:
    """What compose makes of ${NAME:-default} and ${NAME:?message}."""
    return SUBSTITUTED.sub(lambda found: GIVEN.get(found[1]) or found[2] or "", text)


def test_compose_has_the_shape_that_compose_reads() -> None:
    known = {"name", "services", "networks", "volumes"}
    assert {key for key in COMPOSE if not key.startswith("x-")} == known
    for service in COMPOSE["services"].values():
        jsonschema.validate(service, SERVICE)


def test_compose_is_what_was_promised() -> None:
    services = COMPOSE["services"]

    assert set(services) == {
        *("postgres", "redis", "upgrade", "token", "server", "worker", "language-server"),
    }
    assert services["server"]["deploy"] == {"replicas": 2}
    assert services["worker"]["deploy"] == {"replicas": 3}
    assert {"noeviction", "--appendonly"} <= set(services["redis"]["command"])


def test_what_compose_refers_to_is_there() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        assert set(service.get("networks", [])) <= set(COMPOSE["networks"]), name
        for volume in service.get("volumes", []):
            source = re.split(r":(?=/)", substituted(volume))[0]
            is_folder = source.startswith(".") and (ROOT / source / "app.py").is_file()
            assert is_folder or source in COMPOSE["volumes"], volume
        for other, wanted in service.get("depends_on", {}).items():
            assert other in services
            if wanted["condition"] == "service_healthy":
                assert "test" in services[other]["healthcheck"]
            if wanted["condition"] == "service_completed_successfully":
                assert services[other].get("restart") in (None, "on-failure")


def test_who_speaks_to_whom_shares_a_network_and_nobody_else_reaches_the_data() -> None:
    networks = {name: set(each.get("networks", [])) for name, each in COMPOSE["services"].items()}

    for name, each in COMPOSE["services"].items():
        for text in each.get("environment", {}).values():
            for other in re.findall(r"[@/]?([a-z-]+):\d{2,5}\b", substituted(text)):
                assert networks[name] & networks[other], f"{name} → {other}"
    assert {name for name, each in networks.items() if "data" in each} == {
        *("postgres", "redis", "upgrade", "server"),
    }
    assert networks["language-server"] == {"code"}
    assert COMPOSE["networks"]["code"]["internal"]
    assert COMPOSE["networks"]["data"]["internal"]


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_container_of_ours_has_few_rights(name: str) -> None:
    service = OURS[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", sorted(OURS))
def test_commands_and_settings_of_a_container_are_real(name: str, tmp_path: Path) -> None:
    service = OURS[name]
    found = of_tenuto([*service.get("entrypoint", []), *service["command"]])
    assert found
    for words in found:
        assert tuple(words) in KNOWN_COMMANDS
        assert parsed(words) == words[0]
    environment = {
        key: substituted(value)
        for key, value in service["environment"].items()
        if key.startswith("TENUTO_")
    }
    settings = load(environment=environment, folder=tmp_path)
    grace = parse_duration(service["stop_grace_period"])
    assert grace > max(settings.server.drain_us, settings.worker.grace_us)


def test_no_password_stands_in_compose() -> None:
    for service in COMPOSE["services"].values():
        for key, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET$|TOKEN$|://[^/]*@", f"{key} {value}"):
                assert "${" in value, key


def test_health_checks_in_python_compile() -> None:
    for service in OURS.values():
        test = service.get("healthcheck", {}).get("test", [])
        if "python" in test:
            compile(test[-1], "healthcheck", "exec")


def test_the_docker_client_agrees_where_it_has_compose() -> None:
    """`docker compose config` needs no engine."""
    docker = shutil.which("docker")
    has = docker and subprocess.run(
        [docker, "compose", "version"], capture_output=True, check=False
    )
    if has and has.returncode == 0:
        checked = subprocess.run(
            [str(docker), "compose", "--file", "compose.yaml", "config", "--quiet"],
            cwd=ROOT,
            env={**GIVEN, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stderr


def test_secrets_are_drawn_once_and_stay_private(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    script = tmp_path / "deploy" / "env.sh"
    shutil.copy(ROOT / "deploy" / "env.sh", script)

    said = [
        subprocess.run(["sh", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]

    made = tmp_path / ".env"
    lines = dict(line.split("=") for line in made.read_text().splitlines())
    assert said == ["wrote .env\n", ".env is there already: nothing changed\n"]
    assert made.stat().st_mode & 0o777 == 0o600
    assert {key: len(value) for key, value in lines.items()} == {
        "POSTGRES_PASSWORD": 48,
        "TENUTO_AUTH_SECRET": 64,
    }
    assert len(set(lines["TENUTO_AUTH_SECRET"])) > 4
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert ".env" in ignored


# --- Dockerfile --------------------------------------------------------------------------------------


def instructions() -> Iterator[tuple[str, str]]:
    """Each instruction with its text, lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def test_the_dockerfile_is_made_of_instructions() -> None:
    words = [word for word, _ in instructions()]

    assert words[0] == "FROM"
    assert set(words) <= {
        *("FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "STOPSIGNAL"),
        *("HEALTHCHECK", "ENTRYPOINT", "CMD"),
    }
    for word, text in instructions():
        if word in ("CMD", "ENTRYPOINT"):
            assert json.loads(text)
        if word == "HEALTHCHECK":
            test = json.loads(text.partition(" CMD ")[2])
            compile(test[-1], "HEALTHCHECK", "exec")


def test_the_image_runs_the_program_and_not_as_root() -> None:
    last = dict(instructions())

    assert last["USER"].split(":")[0] not in ("root", "0")
    words = json.loads(last["ENTRYPOINT"]) + json.loads(last["CMD"])
    assert words[0] == "tenuto"
    assert tuple(words[1:]) in KNOWN_COMMANDS
    assert parsed(words[1:]) == "server"


def test_every_package_of_the_image_is_pinned() -> None:
    installs = [text for word, text in instructions() if word == "RUN" and " pip " in f"{text} "]
    assert len(installs) >= 3
    for text in installs:
        assert "--require-hashes" in text or "--no-index" in text
    for name in ("cluster.txt", "build.txt"):
        assert "--hash=sha256:" in (ROOT / "requirements" / name).read_text()


def test_what_the_image_copies_is_there_and_passes_dockerignore() -> None:
    passed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = {
        source
        for word, text in instructions()
        if word == "COPY" and not text.startswith("--from=")
        for source in text.split()[:-1]
    }

    assert copied == passed
    for source in copied:
        assert (ROOT / source).exists()


# --- systemd -----------------------------------------------------------------------------------------


def unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """Sections and their settings; a setting may be there several times."""
    found: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return found


def test_the_three_processes_have_units() -> None:
    assert [path.name for path in UNITS] == [
        "tenuto-language-server.service",
        "tenuto-server@.service",
        "tenuto-worker@.service",
    ]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_commands_and_settings_of_a_unit_are_real(path: Path, tmp_path: Path) -> None:
    service = unit(path)["Service"]
    (line,) = service["ExecStart"]
    program, *words = shlex.split(line)
    assert program == "/opt/tenuto/bin/tenuto"
    assert tuple(words) in KNOWN_COMMANDS
    assert parsed(words) == words[0]
    assert path.stem.removesuffix("@") == f"tenuto-{words[0]}"

    environment = dict(
        each.replace("%H", "host").replace("%i", "one").split("=", 1)
        for each in service["Environment"]
    )
    settings = load(environment=environment, folder=tmp_path)
    named = set(VARIABLE.findall(path.read_text()))
    assert named <= {row.variable for row in SETTINGS}
    stop_us = int(service["TimeoutStopSec"][0]) * 1_000_000
    assert words[0] == "language-server" or stop_us > max(
        settings.server.drain_us, settings.worker.grace_us
    )


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_has_few_rights(path: Path) -> None:
    service = unit(path)["Service"]

    for right in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome", "PrivateDevices"):
        assert service[right] == ["yes"], right
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]
    assert service["Restart"] == ["always"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_agrees_where_it_is(path: Path, tmp_path: Path) -> None:
    """Units are read with a program that exists here; everything else is as it is delivered."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.read_string(path.read_text())
    assert set(parser.sections()) == {"Unit", "Service", "Install"}
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        copy = tmp_path / path.name
        text = path.read_text().replace("/opt/tenuto/bin/tenuto", sys.executable)
        copy.write_text(text)
        checked = subprocess.run(
            [analyze, "verify", "--man=no", copy], capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")


# --- the pages about it --------------------------------------------------------------------------------

PAGES = ("cluster", "high-availability", "backup-and-upgrade", "operations")
OF_COMPOSE = {"TENUTO_APP_FOLDER"}


@pytest.mark.parametrize("page", PAGES)
def test_settings_and_variables_that_a_page_names_are_real(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    variables = {row.variable for row in SETTINGS} | OF_COMPOSE
    names = {row.name for row in SETTINGS}
    tables = {row.table for row in SETTINGS if row.table}
    named = [found[0] for found in re.finditer(r"`([a-z]+)\.[a-z_]+`", text) if found[1] in tables]

    assert named or page == "backup-and-upgrade"
    assert [name for name in named if name.strip("`") not in names] == []
    unknown = set(VARIABLE.findall(text)) - variables
    assert {name for name in unknown if not name.endswith("_")} == set()


def test_defaults_that_the_cluster_page_names_are_those_of_the_settings() -> None:
    text = (ROOT / "docs" / "cluster.md").read_text()
    shown = {row.name: row.kind.show(row.default) for row in SETTINGS}

    found = re.findall(r"`([a-z]+\.[a-z_]+)`(?: connections)? \((\d+)(?: (s)\b)?\)", text)
    assert len(found) >= 4
    for name, number, unit in found:
        assert shown[name] == f"{number}{unit}", name
