"""The SQL of the embedded form: every query is described, prepared, used, and finds its rows by an index."""

import re
import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path

import pytest

import limpet
from limpet.schemas.named import parse
from limpet.schemas.sqlite import Schema, queries, seen_schema, shard_schema
from limpet.urlstore.sqlite.codes import CODES, STATES

SCHEMAS = {"shard": shard_schema(), "seen": seen_schema()}
EVERY_QUERY = [(kind, name) for kind, schema in SCHEMAS.items() for name in sorted(schema.queries)]

WHOLE_TABLE = (
    {
        "clashes": "listing",
        "consumed": "a row a source",
        "counters_get": "one row",
        "hosts": "listing",
        "job_counts": "few rows",
        "jobs": "few rows",
        "jobs_eligible": "few rows",
        "lease_count": "few rows",
        "leased_authorities": "few rows",
        "leased_hosts": "few rows",
        "leases_over": "few rows",
        "log_parts": "a row a topic and partition",
        "jobs_release": "few rows",
        "notices": "few rows",
        "notices_kept": "few rows",
        "queues": "a row an authority; its entries are sought",
        "rejects": "listing",
        "repair_count": "few rows",
        "repairs": "few rows",
        "rows_of_state": "listing",
        "reasons_of_state": "summary, when some rows are parked",
        "seeds": "listing",
        "outputs": "listing",
        "authorities_now": "listing",
        "authorities": "report",
        "leases_of_host": "when an operator blocks a host; leases are few",
        "waiting_of_host": "when an operator blocks a host: of its authorities alone",
        "cancelled_of_host": "when an operator takes a block back",
        "cancelled_hosts": "when orders change",
        "robots_fetch_drop": "its two oldest rows",
        "robots_fetches": "listing",
    }
    | {name: "report" for name in shard_schema().queries if name.startswith("report_")}
    | {name: "at a moved clock" for name in shard_schema().queries if name.startswith("shift_")}
)
"""Queries that read a whole table on purpose, and why that is bearable."""


@pytest.fixture(params=sorted(SCHEMAS))
def created(request: pytest.FixtureRequest) -> Iterator[tuple[Schema, sqlite3.Connection]]:
    """An empty database of one kind."""
    schema = SCHEMAS[request.param]
    connection = sqlite3.connect(":memory:")
    connection.executescript(schema.script)
    yield schema, connection
    connection.close()


def test_every_query_is_a_statement_of_its_schema(created: tuple[Schema, sqlite3.Connection]) -> None:
    """SQLite prepares each of them: tables, columns and the number of values agree."""
    schema, connection = created
    for name, sql in schema.queries.items():
        values = [None] * _parameters(sql)
        assert connection.execute(f"EXPLAIN {sql}", values).fetchall(), name


def test_a_query_reads_a_whole_table_only_on_purpose(created: tuple[Schema, sqlite3.Connection]) -> None:
    """Everything that runs per page finds its rows by an index."""
    schema, connection = created
    for name, sql in schema.queries.items():
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * _parameters(sql)).fetchall()
        scans = [step[3] for step in plan if re.match(r"SCAN (?!CONSTANT ROW|item$)", step[3])]
        if name not in WHOLE_TABLE:
            assert scans == [], name


@pytest.mark.parametrize(("kind", "name"), EVERY_QUERY)
def test_every_query_is_used(kind: str, name: str) -> None:
    """A query that nobody names is dead."""
    assert f'"{name}"' in _sources(), f"{kind}: {name}"


def test_state_codes_are_distinct_and_the_ones_that_queries_name() -> None:
    """A code is never given to another state; the SQL spells six of them out."""
    assert len(STATES) == len(CODES)
    assert {state.value: code for state, code in CODES.items()} == {
        "due": 0,
        "leased": 1,
        "fetched": 2,
        "denied": 3,
        "gone": 4,
        "failed": 5,
        "parked": 6,
        "review": 7,
        "cancelled": 8,
    }


def test_every_file_of_queries_is_loaded() -> None:
    """No file lies beside the schemas unread."""
    files = {path.name.removesuffix(".sql") for path in resources.files("limpet.schemas.sqlite").iterdir()}
    files = {name for name in files if (resources.files("limpet.schemas.sqlite") / f"{name}.sql").is_file()}
    loaded = {name for schema in SCHEMAS.values() for name in schema.queries}
    for file in files:
        if file == "shard_steps":
            assert {step.name for step in SCHEMAS["shard"].steps} == set(queries(file))
        elif not file.endswith("_schema"):
            assert set(queries(file)) <= loaded, file


@pytest.mark.parametrize("text", ["-- name: a\nSELECT 1;", "-- name: a\n-- What it is for."])
def test_a_query_without_description_or_statement_is_refused(text: str) -> None:
    """By the name of its file."""
    with pytest.raises(ValueError, match=r"broken\.sql: query a"):
        parse(text, "broken.sql")


def test_a_name_is_given_once() -> None:
    """Two files cannot define the same query."""
    with pytest.raises(ValueError, match="defined twice"):
        queries("urls", "urls")


def test_a_block_is_a_name_a_description_and_a_statement() -> None:
    """Comments become the description, the rest the statement."""
    (query,) = parse("-- head of the file\n\n-- name: one\n-- What it\n-- is for.\nSELECT 1\nFROM t;\n", "f")
    assert query == ("one", "What it is for.", "SELECT 1\nFROM t;")


@cache
def _sources() -> str:
    return "".join(path.read_text("utf-8") for root in limpet.__path__ for path in Path(root).rglob("*.py"))


def _parameters(sql: str) -> int:
    numbered = {int(number) for number in re.findall(r"\?(\d+)", sql)}
    return max(numbered) if numbered else sql.count("?")
