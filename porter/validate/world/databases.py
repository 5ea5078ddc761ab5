"""Tables of a database that another program of the project makes: they are there, and empty.

`init_db()` of a server, or of the command line, makes what a training then writes its runs into. SQLAlchemy's classes
say what its tables are; those of a plain `sqlite3` nothing tells.
"""

from __future__ import annotations

import importlib.util
import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

USES = re.compile(r"\b(?:sqlalchemy|sqlmodel)\b")
LACKING = re.compile(r"no such table: (?:\w+\.)?(\w+)")


def stand_in_tables(sources: Sequence[str], note: Callable[[str], None]) -> None:
    """Make a table that SQLite lacks when SQLAlchemy first asks for it, where the project's `sources` use that."""
    if not any(USES.search(text) for text in sources) or importlib.util.find_spec("sqlalchemy") is None:
        return
    from sqlalchemy import Table, event
    from sqlalchemy.engine import Engine
    from sqlalchemy.schema import CreateTable

    tables: dict[str, Any] = {}

    def described(table: Any, metadata: Any) -> None:
        tables[table.name] = table

    def executed(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        def creation(name: str) -> str:
            return str(CreateTable(tables[name]).compile(dialect=context.dialect)) if name in tables else ""

        execute(cursor, statement, parameters, creation, note)
        return True

    event.listen(Table, "after_parent_attach", described)
    event.listen(Engine, "do_execute", executed)


def execute(
    cursor: Any, statement: str, parameters: Any, creation: Callable[[str], str], note: Callable[[str], None]
) -> None:
    """Run `statement`; tables that are lacking are made first by what `creation` says of a name, "" where nothing."""
    made: set[str] = set()
    while True:
        try:
            cursor.execute(statement, parameters)
            return
        except sqlite3.OperationalError as error:
            lacking = LACKING.search(str(error))
            text = creation(lacking[1]) if lacking is not None and lacking[1] not in made else ""
            if lacking is None or not text:
                raise
            made.add(lacking[1])
            cursor.execute(text)
            note(f"the table {lacking[1]}, which another program of the project makes, was made, and empty")
