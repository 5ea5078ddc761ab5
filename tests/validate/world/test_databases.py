"""Tables of a database that another program of the project makes."""

from __future__ import annotations

import sqlite3

import pytest

from porter.validate.world.databases import execute


def test_a_table_that_the_project_describes_is_made_when_it_is_first_asked_for() -> None:
    """The server's `init_db()` makes it: the training ended where it noted its run."""
    notes: list[str] = []
    described = {"runs": "CREATE TABLE runs (name TEXT)", "users": "CREATE TABLE users (id INTEGER)"}
    with sqlite3.connect(":memory:") as database:
        cursor = database.cursor()
        for name in ("first", "second"):
            execute(cursor, "INSERT INTO runs VALUES (?)", (name,), lambda name: described.get(name, ""), notes.append)
        assert cursor.execute("SELECT name FROM runs").fetchall() == [("first",), ("second",)]
        assert notes == ["the table runs, which another program of the project makes, was made, and empty"]
        with pytest.raises(sqlite3.OperationalError, match="no such table: others"):
            execute(cursor, "SELECT * FROM others", (), lambda name: described.get(name, ""), notes.append)
