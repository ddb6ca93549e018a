-- name: host_id
-- The id of a host.
SELECT id FROM host WHERE name = ?;

-- name: host_insert
-- A host that is met for the first time.
INSERT INTO host (name) VALUES (?);

-- name: authority_id
-- The ids of an authority and its host.
SELECT id, host FROM authority WHERE name = ?;

-- name: authority_insert
-- An authority that is met for the first time.
INSERT INTO authority (name, host) VALUES (?, ?);

-- name: host_get
-- What politeness remembers of a host.
SELECT name, wait_us, wait_reason, response_us, failing, urls, addresses, transient, refused, trips, broken_us
FROM host WHERE name = ?;

-- name: hosts
-- What politeness remembers of every host.
SELECT name, wait_us, wait_reason, response_us, failing, urls, addresses, transient, refused, trips, broken_us
FROM host ORDER BY id;

-- name: host_put
-- Store what politeness must remember; the count of URLs is not its business.
INSERT INTO host (
  name, wait_us, wait_reason, response_us, failing, addresses, transient, refused, trips, broken_us
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
  wait_us = excluded.wait_us, wait_reason = excluded.wait_reason, response_us = excluded.response_us,
  failing = excluded.failing, addresses = excluded.addresses, transient = excluded.transient,
  refused = excluded.refused, trips = excluded.trips, broken_us = excluded.broken_us;

-- name: day_add
-- Requests of a UTC day.
INSERT INTO day (day, requests) VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET requests = requests + excluded.requests;

-- name: day_get
-- Requests of one UTC day.
SELECT requests FROM day WHERE day = ?;

-- name: robots_fetch_insert
-- A request for a robots.txt, unless it is known.
INSERT INTO robots_fetch (fetched_us, url, data) VALUES (?, ?, ?) ON CONFLICT (url, fetched_us) DO NOTHING;

-- name: robots_fetch_drop
-- Of the two oldest those before a time: with every new one, so that what is too old goes faster than it comes.
DELETE FROM robots_fetch WHERE seq IN (SELECT seq FROM robots_fetch ORDER BY seq LIMIT 2) AND fetched_us < ?;

-- name: robots_fetch_exists
-- Whether a request is known.
SELECT 1 FROM robots_fetch WHERE url = ? AND fetched_us = ?;

-- name: robots_fetches
-- Every one that is kept.
SELECT data FROM robots_fetch ORDER BY fetched_us, seq;

-- name: authority_get
-- What robots remembers of an authority.
SELECT a.name, h.name, a.robots, a.robots_digest, a.wait_us, a.wait_reason
FROM authority AS a JOIN host AS h ON h.id = a.host
WHERE a.name = ?;

-- name: authority_put
-- Store what robots must remember of a known authority.
UPDATE authority SET robots = ?, robots_digest = ?, wait_us = ?, wait_reason = ? WHERE id = ?;

-- name: queue_next
-- The earliest due time of one authority in each lane.
SELECT
  a.name, h.name,
  (SELECT d.due_us FROM due AS d WHERE d.authority = a.id AND d.lane = 0 ORDER BY d.due_us LIMIT 1),
  (SELECT d.due_us FROM due AS d WHERE d.authority = a.id AND d.lane = 1 ORDER BY d.due_us LIMIT 1)
FROM authority AS a JOIN host AS h ON h.id = a.host
WHERE a.id = ?;

-- name: queues
-- The earliest due time of every authority in each lane: two seeks a queue, however many entries it has.
SELECT
  a.id, a.name, h.name,
  (SELECT d.due_us FROM due AS d WHERE d.authority = a.id AND d.lane = 0 ORDER BY d.due_us LIMIT 1),
  (SELECT d.due_us FROM due AS d WHERE d.authority = a.id AND d.lane = 1 ORDER BY d.due_us LIMIT 1),
  a.wait_us, a.wait_reason, h.wait_us, h.wait_reason
FROM authority AS a JOIN host AS h ON h.id = a.host;

-- name: authority_host
-- The ids of an authority, and the name of its host.
SELECT a.id, h.name FROM authority AS a JOIN host AS h ON h.id = a.host WHERE a.name = ?;

-- name: authorities_now
-- Every authority, or those of one host ('' = of all), with its wait, how much is queued and leased, and what is due
-- first in each lane.
SELECT
  a.name, h.name, a.robots, a.wait_us, a.wait_reason,
  (SELECT count(*) FROM due AS d WHERE d.authority = a.id),
  (SELECT count(*) FROM lease AS l WHERE l.authority = a.id),
  (SELECT d.due_us FROM due AS d WHERE d.authority = a.id AND d.lane = 0 ORDER BY d.due_us LIMIT 1),
  (SELECT d.due_us FROM due AS d WHERE d.authority = a.id AND d.lane = 1 ORDER BY d.due_us LIMIT 1)
FROM authority AS a JOIN host AS h ON h.id = a.host
WHERE ?1 IN ('', h.name);
