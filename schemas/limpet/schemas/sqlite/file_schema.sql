-- What every file of the embedded form has.

CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- All counters in one row, as JSON: they change in every transaction, and one row is one write.
CREATE TABLE counter (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  totals TEXT NOT NULL
);
