-- name: clean
-- Whether the file was closed in order.
SELECT value FROM meta WHERE name = 'clean';

-- name: pin_seen
-- Take the snapshot of the marks before that of the rows: a mark follows its row.
SELECT count(*) FROM marks.sqlite_master;

-- name: rows
-- What identity follows from, for every row.
SELECT fp, url, key FROM url;

-- name: clashes
-- How many candidates wait in review beside a row with their fingerprint.
SELECT count(*) FROM clash;

-- name: unknown_states
-- Rows in a state that is never stored: 1 (leased) shows in the lease alone.
SELECT url, state FROM url WHERE state NOT IN (0, 2, 3, 4, 5, 6, 7, 8);

-- name: hosts_of_rows
-- Hosts that have rows, with the count kept for the host cap and the count itself.
SELECT h.name, h.urls, sum(c.rows)
FROM (SELECT authority, count(*) AS rows FROM url GROUP BY authority) AS c
JOIN authority AS a ON a.id = c.authority JOIN host AS h ON h.id = a.host
GROUP BY h.id;

-- name: rows_without_authority
-- Rows whose authority or host does not exist.
SELECT u.url
FROM url AS u LEFT JOIN authority AS a ON a.id = u.authority LEFT JOIN host AS h ON h.id = a.host
WHERE h.id IS NULL;

-- name: lost_seeds
-- Seeds' rows whose seed, which draws the scope and is stored before its row, is not there.
SELECT u.url FROM url AS u WHERE u.seed AND NOT EXISTS (SELECT 1 FROM seed AS s WHERE s.url = u.url);

-- name: lost_due
-- Rows that can be claimed, now or later, and are not where the claim looks. 0 is due, 2 fetched.
SELECT u.url, u.due_us, u.lane
FROM url AS u
WHERE (u.state = 0 OR (u.state = 2 AND u.due_us > 0))
  AND NOT EXISTS (SELECT 1 FROM lease AS l WHERE l.fp = u.fp)
  AND NOT EXISTS (
    SELECT 1 FROM due AS d WHERE d.authority = u.authority AND d.lane = u.lane AND d.due_us = u.due_us AND d.url = u.id
  );

-- name: ghost_due
-- Entries that lead to no row, or to one that cannot be claimed there and then.
SELECT coalesce(u.url, 'row ' || d.url), d.due_us, d.lane
FROM due AS d LEFT JOIN url AS u ON u.id = d.url
WHERE u.id IS NULL
  OR u.authority <> d.authority OR u.lane <> d.lane OR u.due_us <> d.due_us
  OR NOT (u.state = 0 OR (u.state = 2 AND u.due_us > 0))
  OR EXISTS (SELECT 1 FROM lease AS l WHERE l.fp = u.fp);

-- name: leases
-- Every lease; the second column tells whether its row exists.
SELECT coalesce(u.url, hex(l.fp)), u.id IS NOT NULL, l.holder
FROM lease AS l LEFT JOIN url AS u ON u.fp = l.fp AND u.id = l.url AND u.authority = l.authority;

-- name: latest
-- Rows that must have a latest outcome, with that outcome. 2 is fetched, 4 gone.
SELECT u.url, u.state, u.latest_us, o.state, o.data
FROM url AS u LEFT JOIN outcome AS o ON o.url = u.id AND o.fetched_us = u.latest_us
WHERE u.latest_us > 0 OR u.state IN (2, 4);

-- name: outcomes
-- Every outcome with the row it is filed under.
SELECT o.seq, o.fetched_us, o.data, u.fp, u.url
FROM outcome AS o LEFT JOIN url AS u ON u.id = o.url
ORDER BY o.seq;

-- name: double_outcomes
-- Keys that occur twice.
SELECT coalesce(u.url, 'row ' || o.url), o.fetched_us, count(*)
FROM outcome AS o LEFT JOIN url AS u ON u.id = o.url
GROUP BY o.url, o.fetched_us HAVING count(*) > 1;

-- name: double_rows
-- Fingerprints that occur twice.
SELECT min(url), count(*) FROM url GROUP BY fp HAVING count(*) > 1;

-- name: unparsed
-- Fetched outcomes with neither output nor job.
SELECT u.url, o.fetched_us
FROM outcome AS o JOIN url AS u ON u.id = o.url
WHERE o.state = 2
  AND NOT EXISTS (SELECT 1 FROM output AS p WHERE p.fp = u.fp AND p.fetched_us = o.fetched_us)
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.fp = u.fp AND j.fetched_us = o.fetched_us);

-- name: ghost_seen
-- Marks without a row.
SELECT s.fp FROM marks.seen AS s WHERE NOT EXISTS (SELECT 1 FROM url AS u WHERE u.fp = s.fp);

-- name: seen_count
-- How many marks there are.
SELECT count(*) FROM marks.seen;

-- name: unmarked_count
-- How many rows have no mark.
SELECT count(*) FROM url AS u WHERE NOT EXISTS (SELECT 1 FROM marks.seen AS s WHERE s.fp = u.fp);

-- name: counters
-- All counters, as JSON.
SELECT totals FROM counter WHERE id = 1;

-- name: states
-- Rows by state; a row with a lease counts as leased (1), whatever it was claimed from.
SELECT iif(EXISTS (SELECT 1 FROM lease AS l WHERE l.fp = u.fp), 1, u.state), count(*), sum(u.page) FROM url AS u GROUP BY 1;

-- name: outputs
-- Every accepted output.
SELECT data FROM output;

-- name: job_states
-- Parse jobs by state.
SELECT state, count(*) FROM job GROUP BY state;

-- name: repair_count
-- Open repair items.
SELECT count(*) FROM repair;

-- name: rejected
-- Rejected links.
SELECT coalesce(sum(count), 0) FROM reject;

-- name: robots
-- What is known of the robots.txt of every authority that was asked for it.
SELECT name, robots FROM authority WHERE robots != x'';

-- name: log_counts
-- Messages in the log by topic.
SELECT topic, count(*) FROM log GROUP BY topic;

-- name: log_parts
-- Begin and end of every topic and partition of this shard's log.
SELECT topic, part, start, finish FROM log_part;

-- name: consumed
-- Committed offsets of this shard's consumers.
SELECT topic, part, source, next FROM consumed;

-- name: outcome
-- One outcome with its row.
SELECT o.data, u.url FROM outcome AS o LEFT JOIN url AS u ON u.id = o.url WHERE o.seq = ?;

-- name: row_exists
-- Whether a fingerprint has a row.
SELECT 1 FROM url WHERE fp = ?;

-- name: outcome_of
-- The outcome of a fingerprint and fetch time.
SELECT o.data FROM outcome AS o JOIN url AS u ON u.id = o.url WHERE u.fp = ? AND o.fetched_us = ?;

-- name: parsed_pages
-- Stored bodies that were parsed, with what their events said.
SELECT o.seq, o.data, u.depth, u.hops, u.seed, p.data
FROM outcome AS o JOIN url AS u ON u.id = o.url JOIN output AS p ON p.fp = u.fp AND p.fetched_us = o.fetched_us
WHERE o.state = 2 AND o.seq > ? ORDER BY o.seq LIMIT ?;

-- name: host_urls
-- Rows of one host, as counted for the host cap.
SELECT urls FROM host WHERE name = ?;

-- name: outcomes_after
-- A batch of outcomes in the order of completion, after a sequence number.
SELECT seq, data FROM outcome WHERE seq > ? ORDER BY seq LIMIT ?;
