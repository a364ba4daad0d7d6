"""The door of settings: what files, the environment and the command line say, as one frozen tree.

`load` reads it; `tree` is the table of all settings. Nothing is opened but the settings file.
"""

from __future__ import annotations

from tenuto.settings.database import DEFAULT_DATABASE, MEMORY, Database, read_database
from tenuto.settings.loading import InvalidSettings, database_of, load, parse_database
from tenuto.settings.tree import SETTINGS, Setting, Settings

__all__ = [
    "DEFAULT_DATABASE",
    "MEMORY",
    "SETTINGS",
    "Database",
    "InvalidSettings",
    "Setting",
    "Settings",
    "database_of",
    "load",
    "parse_database",
    "read_database",
]
