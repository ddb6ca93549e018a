-- name: log_marks
-- The latest completion, the latest URL that left the queue without a request, the latest request for a robots.txt.
SELECT (SELECT max(seq) FROM outcome), (SELECT max(seq) FROM ended), (SELECT max(seq) FROM robots_fetch);

-- name: log_outcome_keys
-- When what was completed between two numbers was fetched.
SELECT seq, fetched_us FROM outcome WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?;

-- name: log_ended_keys
-- When what left the queue between two numbers did so.
SELECT seq, ended_us FROM ended WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?;

-- name: log_robots_keys
-- When those requests for robots.txt that were stored between two numbers were sent.
SELECT seq, fetched_us FROM robots_fetch WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?;

-- name: log_outcome
-- One outcome with what the log says of its URL.
SELECT o.data, u.fp, u.hops, u.via, u.seed FROM outcome AS o JOIN url AS u ON u.id = o.url WHERE o.seq = ?;

-- name: log_states_before
-- The states that earlier completions of an outcome's URL gave, the latest first.
SELECT p.state FROM outcome AS o JOIN outcome AS p ON p.url = o.url AND p.fetched_us < o.fetched_us
WHERE o.seq = ?1 ORDER BY p.fetched_us DESC LIMIT ?2;

-- name: log_output
-- What the latest parser that saw a fetch made of it.
SELECT data FROM output WHERE fp = ? AND fetched_us = ? ORDER BY parser_version DESC LIMIT 1;

-- name: log_ended
-- One URL that left the queue without a request.
SELECT e.state, e.reason, u.url, u.fp, u.hops, u.via, u.seed FROM ended AS e JOIN url AS u ON u.id = e.url
WHERE e.seq = ?;

-- name: log_robots
-- One request for a robots.txt.
SELECT data FROM robots_fetch WHERE seq = ?;

-- name: log_via
-- Where a URL was found.
SELECT url, via, seed FROM url WHERE fp = ?;

-- name: report_host_rows
-- Rows by authority and state. A leased row keeps the state it was claimed from.
SELECT authority, state, count(*) FROM url GROUP BY authority, state;

-- name: report_host_leases
-- Leases by authority and the state their rows were claimed from.
SELECT u.authority, u.state, count(*) FROM lease AS l JOIN url AS u ON u.id = l.url GROUP BY u.authority, u.state;

-- name: report_host_fetches
-- Fetches and bytes by authority.
SELECT authority, count(*), sum(wire_bytes) FROM outcome GROUP BY authority;

-- name: report_reason_rows
-- Rows by state and reason.
SELECT state, reason, count(*) FROM url GROUP BY state, reason;

-- name: report_reason_leases
-- Leases by the state their rows were claimed from, and its reason.
SELECT u.state, u.reason, count(*) FROM lease AS l JOIN url AS u ON u.id = l.url GROUP BY u.state, u.reason;

-- name: report_statuses
-- Fetches by answer: how many, of how many URLs the latest, and bytes.
SELECT o.answer, count(*), sum(o.fetched_us = u.latest_us), sum(o.wire_bytes)
FROM outcome AS o JOIN url AS u ON u.id = o.url
GROUP BY o.answer;

-- name: report_mimes
-- The same by content type as it was spelt: those with the most fetches, so many of them.
SELECT o.mime, count(*), sum(o.fetched_us = u.latest_us), sum(o.wire_bytes)
FROM outcome AS o JOIN url AS u ON u.id = o.url
GROUP BY o.mime ORDER BY 2 DESC LIMIT ?;

-- name: report_all
-- All fetches: how many, of how many URLs the latest, and bytes.
SELECT count(*), sum(o.fetched_us = u.latest_us), sum(o.wire_bytes) FROM outcome AS o JOIN url AS u ON u.id = o.url;

-- name: report_robots
-- Copies of robots.txt: of how many authorities, and one of these. Equal digests mean equal rules.
SELECT count(*), min(id) FROM authority WHERE robots_digest != '' GROUP BY robots_digest;

-- name: report_robots_copy
-- What robots remembers of an authority.
SELECT robots FROM authority WHERE id = ?;

-- name: authorities
-- Ids of authorities, and the names of their hosts.
SELECT a.id, h.name FROM authority AS a JOIN host AS h ON h.id = a.host;
