-- name: output_insert
-- Accept an output, once per document and parser version.
INSERT INTO output (fp, fetched_us, parser_version, data) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: output_replace
-- The same output with other links: those of a document that turned out to be nearer to a seed.
UPDATE output SET data = ? WHERE fp = ? AND fetched_us = ? AND parser_version = ?;

-- name: outputs_of
-- Every accepted output of one URL.
SELECT data FROM output WHERE fp = ?;

-- name: output_get
-- An accepted output.
SELECT data FROM output WHERE fp = ? AND fetched_us = ? AND parser_version = ?;

-- name: outputs
-- Every accepted output.
SELECT data FROM output ORDER BY fp, fetched_us, parser_version;

-- name: outputs_after
-- Every accepted output behind one, in the order of keys.
SELECT data FROM output WHERE (fp, fetched_us, parser_version) > (?, ?, ?)
ORDER BY fp, fetched_us, parser_version LIMIT ?;

-- name: job_get
-- One job.
SELECT fp, fetched_us, event, attempt, due_us, reason, token, lease_us, state FROM job WHERE fp = ? AND fetched_us = ?;

-- name: jobs
-- Every job that has not ended well, earliest first.
SELECT fp, fetched_us, event, attempt, due_us, reason, token, lease_us, state FROM job ORDER BY due_us, fp, fetched_us;

-- name: jobs_eligible
-- Open jobs whose time has come and that nobody holds.
SELECT fp, fetched_us, event, attempt, due_us, reason, token, lease_us, state FROM job
WHERE state = 'open' AND due_us <= ? AND lease_us <= ?
ORDER BY due_us, fp, fetched_us
LIMIT ?;

-- name: jobs_release
-- End leases of jobs that end by a time. The token stays: whoever claims the job next knows that its holder is gone.
UPDATE job SET lease_us = 0 WHERE lease_us BETWEEN 1 AND ?;

-- name: job_put
-- Store a job whole.
INSERT OR REPLACE INTO job (fp, fetched_us, event, attempt, due_us, reason, token, lease_us, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: job_delete
-- A job ended well.
DELETE FROM job WHERE fp = ? AND fetched_us = ?;

-- name: unparsed
-- Fetched outcomes with neither output nor job, in the order of completion. 2 is fetched.
SELECT o.seq, o.completed_us, o.data
FROM outcome AS o JOIN url AS u ON u.id = o.url
WHERE o.seq > ? AND o.state = 2
  AND NOT EXISTS (SELECT 1 FROM output AS p WHERE p.fp = u.fp AND p.fetched_us = o.fetched_us AND p.parser_version = ?)
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.fp = u.fp AND j.fetched_us = o.fetched_us)
ORDER BY o.seq
LIMIT ?;

-- name: outcome_last
-- The sequence number of the latest completion.
SELECT max(seq) FROM outcome;
