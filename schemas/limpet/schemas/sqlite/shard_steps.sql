-- name: 3_sums_beside_outcomes
-- Outcomes repeat authority, bytes, answer and content type in columns; URLs that end without a request have a table.
ALTER TABLE outcome RENAME TO outcome_2;
CREATE TABLE outcome (
  seq INTEGER PRIMARY KEY,
  url INTEGER NOT NULL,
  fetched_us INTEGER NOT NULL,
  completed_us INTEGER NOT NULL,
  state INTEGER NOT NULL,
  authority INTEGER NOT NULL,
  wire_bytes INTEGER NOT NULL,
  answer TEXT NOT NULL,
  mime TEXT NOT NULL,
  data BLOB NOT NULL,
  UNIQUE (url, fetched_us)
);
INSERT INTO outcome
SELECT
  o.seq, o.url, o.fetched_us, o.completed_us, o.state, u.authority, outcome_2_bytes(o.data), outcome_2_answer(o.data),
  outcome_2_mime(o.data), o.data
FROM outcome_2 AS o JOIN url AS u ON u.id = o.url;
DROP TABLE outcome_2;
CREATE TABLE ended (
  seq INTEGER PRIMARY KEY,
  url INTEGER NOT NULL,
  ended_us INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason TEXT NOT NULL
);

-- name: 4_robots_fetches
-- Requests for robots.txt have lines of their own. Of earlier ones only the archive tells.
CREATE TABLE robots_fetch (
  seq INTEGER PRIMARY KEY,
  fetched_us INTEGER NOT NULL,
  url TEXT NOT NULL,
  data BLOB NOT NULL,
  UNIQUE (url, fetched_us)
);
