-- The marks of one shard. Derived from the rows: may be thrown away at any time.

CREATE TABLE seen (
  fp BLOB PRIMARY KEY
) WITHOUT ROWID;
