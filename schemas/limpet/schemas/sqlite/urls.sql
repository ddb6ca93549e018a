-- name: url_identity
-- What the authority knows of a fingerprint, to tell a known URL from a clash.
SELECT key, url, depth, hops FROM url WHERE fp = ?;

-- name: url_nearer
-- A shorter way from a seed was found.
UPDATE url SET depth = ?, hops = ?, via = ?, seed = max(seed, ?) WHERE fp = ?;

-- name: url_insert
-- A new row.
INSERT INTO url (fp, authority, state, due_us, depth, seed, admitted_us, reason, hops, kind, via, url, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: due_insert
-- An entry of the due index.
INSERT INTO due (authority, lane, due_us, url) VALUES (?, ?, ?, ?);

-- name: due_delete
-- Take an entry out of the due index.
DELETE FROM due WHERE authority = ? AND lane = ? AND due_us = ? AND url = ?;

-- name: clash_insert
-- Keep a candidate whose fingerprint is taken.
INSERT INTO clash (fp, key, candidate, admitted_us) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: clashes
-- Every clashing candidate.
SELECT candidate, admitted_us FROM clash;

-- name: host_urls_add
-- Count rows admitted for a host.
UPDATE host SET urls = urls + ? WHERE id = ?;

-- name: row_by_fp
-- One row.
SELECT * FROM url_row WHERE fp = ?;

-- name: rows_after
-- A batch of rows in the order of admission, after an id.
SELECT * FROM url_row WHERE id > ? ORDER BY id LIMIT ?;

-- name: rows_of_state
-- Rows of one state, in the order of admission.
SELECT * FROM url_row WHERE state = ? ORDER BY id;

-- name: outcome_insert
-- An outcome, once per URL and fetch time.
INSERT INTO outcome (url, fetched_us, completed_us, state, authority, wire_bytes, answer, mime, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: outcome_replace
-- The same outcome again: equal key, equal value.
UPDATE outcome SET wire_bytes = ?, answer = ?, mime = ?, data = ? WHERE url = ? AND fetched_us = ?;

-- name: ended_insert
-- A URL left the queue without a request.
INSERT INTO ended (url, ended_us, state, reason) VALUES (?, ?, ?, ?);

-- name: outcome_exists
-- Whether an outcome is there.
SELECT 1 FROM outcome AS o JOIN url AS u ON u.id = o.url WHERE u.fp = ? AND o.fetched_us = ?;

-- name: outcomes_of_url
-- Outcomes of one URL, oldest first.
SELECT o.data FROM outcome AS o JOIN url AS u ON u.id = o.url WHERE u.fp = ? ORDER BY o.fetched_us;

-- name: outcomes_after
-- A batch of outcomes in the order of completion, after a sequence number.
SELECT seq, data FROM outcome WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: outcomes_before
-- A batch of outcomes against the order of completion, before a sequence number.
SELECT seq, data FROM outcome WHERE seq < ? ORDER BY seq DESC LIMIT ?;

-- name: reject_get
-- Count and samples of a host and rule.
SELECT count, samples FROM reject WHERE host = ? AND rule = ?;

-- name: reject_put
-- Store count and samples of a host and rule.
INSERT INTO reject (host, rule, count, samples) VALUES (?, ?, ?, ?)
ON CONFLICT (host, rule) DO UPDATE SET count = excluded.count, samples = excluded.samples;

-- name: rejects
-- All counts with their samples.
SELECT host, rule, count, samples FROM reject ORDER BY host, rule;

-- name: seed_insert
-- Remember a seed.
INSERT INTO seed (url) VALUES (?) ON CONFLICT DO NOTHING;

-- name: seeds
-- All seeds.
SELECT url FROM seed ORDER BY url;
