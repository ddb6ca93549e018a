"""The files of CQL: what a migration may hold, and that queries and tables are named well."""

import re

import pytest

from limpet.schemas.cql import migrations, queries, statements


def test_every_statement_of_a_migration_may_be_repeated() -> None:
    """A death in the middle of a migration is repaired by applying it again."""
    found = [statement for migration in migrations() for statement in migration.statements]
    assert found
    for statement in found:
        assert re.match(r"(CREATE (TABLE|INDEX) IF NOT EXISTS|ALTER TABLE \w+ ADD IF NOT EXISTS) ", statement), (
            statement
        )


def test_migrations_are_numbered_without_gaps() -> None:
    """Their order is that of their numbers."""
    names = [migration.name for migration in migrations()]
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1))


def test_comments_are_no_statements() -> None:
    """A semicolon ends a statement at the end of a line only."""
    assert statements("-- what; for\nCREATE a (b text);\n\n  -- more;\nINSERT x VALUES (';' );\n") == (
        "CREATE a (b text)",
        "INSERT x VALUES (';' )",
    )


def test_every_query_names_a_table_that_a_migration_makes() -> None:
    """And every table is read or written by some query, but for that of migrations itself."""
    tables = {
        name
        for migration in migrations()
        for statement in migration.statements
        for name in re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", statement)
    }
    named = {name: set(re.findall(r"(?:FROM|INTO|UPDATE) (\w+)", text)) for name, text in queries().items()}
    assert {name: used - tables for name, used in named.items() if used - tables} == {}
    assert tables <= set().union(*named.values())


@pytest.mark.parametrize("word", ["ALLOW FILTERING", "null", "COUNTER"])
def test_no_query_does_what_the_room_forbids(word: str) -> None:
    """No scan in disguise, no tombstone in disguise, no counter that a retry could raise twice."""
    assert [name for name, text in queries().items() if re.search(rf"\b{word}\b", text)] == []
