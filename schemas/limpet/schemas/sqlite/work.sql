-- name: claim_due
-- Entries of one lane that are due, earliest first, with what a claim needs of their rows.
SELECT
  d.due_us, u.id, u.fp, u.url, u.state, u.depth, u.hops, u.seed, u.failures, u.interruptions, u.latest_us,
  (SELECT v.url FROM url AS v WHERE v.fp = u.via)
FROM due AS d
JOIN url AS u ON u.id = d.url
WHERE d.authority = ? AND d.lane = ? AND d.due_us <= ?
ORDER BY d.due_us, d.url
LIMIT ?;

-- name: lease_insert
-- A claim.
INSERT INTO lease (fp, url, authority, token, lease_us, alone, holder) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: lease_get
-- A lease with what ending it needs of the row.
SELECT l.url, l.authority, l.token, l.lease_us, l.alone, u.lane, u.due_us, u.interruptions, u.page
FROM lease AS l JOIN url AS u ON u.id = l.url
WHERE l.fp = ?;

-- name: lease_extend
-- Renew a lease that is still ours; never shortens it.
UPDATE lease SET lease_us = max(lease_us, ?) WHERE fp = ? AND token = ? AND lease_us > ?;

-- name: lease_delete
-- End a lease.
DELETE FROM lease WHERE fp = ?;

-- name: leases_over
-- Leases that ran out by a moment.
SELECT fp FROM lease WHERE lease_us <= ? ORDER BY url;

-- name: leased_hosts
-- Hosts with an unfinished lease.
SELECT DISTINCT h.name FROM lease AS l JOIN authority AS a ON a.id = l.authority JOIN host AS h ON h.id = a.host
ORDER BY h.name;

-- name: leased_authorities
-- Authorities with an unfinished lease, as query authority_get has them.
SELECT DISTINCT a.name, h.name, a.robots, a.robots_digest, a.wait_us, a.wait_reason
FROM lease AS l JOIN authority AS a ON a.id = l.authority JOIN host AS h ON h.id = a.host
ORDER BY a.name;

-- name: url_complete
-- How a claim ended, with an outcome.
UPDATE url SET
  state = ?, reason = ?, due_us = ?, lane = ?, failures = ?, interruptions = ?, page = ?, latest_us = ?
WHERE id = ?;

-- name: url_end
-- How a claim ended, without an outcome.
UPDATE url SET state = ?, reason = ?, due_us = ?, lane = ?, failures = ?, interruptions = ?, page = ? WHERE id = ?;

-- name: url_hand_back
-- A claim that was not sent.
UPDATE url SET state = ?, due_us = ? WHERE id = ?;

-- name: url_interrupt
-- A claim whose lease ended without a word.
UPDATE url SET state = ?, reason = ?, due_us = ?, lane = ?, interruptions = ? WHERE id = ?;

-- name: adopt_get
-- The row an orphan record belongs to.
SELECT u.id, u.authority, u.state, u.lane, u.due_us, u.page, u.latest_us, l.holder
FROM url AS u LEFT JOIN lease AS l ON l.fp = u.fp
WHERE u.fp = ?;

-- name: url_page
-- Whether a row that stays where it is counts among the pages.
UPDATE url SET page = ? WHERE id = ?;

-- name: denied_of_authority
-- Denied rows of an authority. 3 is denied.
SELECT id FROM url WHERE authority = ? AND state = 3;

-- name: url_rearm
-- A row becomes due again with its counts cleared.
UPDATE url SET state = 0, reason = '', due_us = ?, lane = ?, failures = 0, interruptions = 0 WHERE id = ?;

-- name: rearm_get
-- State and queue of a row that an operator wants due again.
SELECT id, authority, state FROM url WHERE fp = ?;

-- name: waiting_of_authority
-- Rows of an authority that wait in state due (0), with their entries.
SELECT d.lane, d.due_us, d.url FROM due AS d JOIN url AS u ON u.id = d.url WHERE d.authority = ? AND u.state = 0;

-- name: url_wait_out
-- A row that waited in vain. 5 is failed.
UPDATE url SET state = 5, reason = ?, due_us = 0 WHERE id = ?;

-- name: leases_of_host
-- Leases of a host, of URLs whose paths begin with one of a list.
SELECT l.fp, l.url
FROM lease AS l JOIN authority AS a ON a.id = l.authority JOIN host AS h ON h.id = a.host JOIN url AS u ON u.id = l.url
WHERE h.name = ? AND EXISTS (
  SELECT 1 FROM json_each(?) AS p WHERE substr(u.url, length(a.name) + 1, length(p.value)) = p.value
) LIMIT ?;

-- name: waiting_of_host
-- Rows of a host that wait in state due (0), with their entries, where their paths begin with one of a list. Queue by
-- queue, since entries are kept by queue.
SELECT d.authority, d.lane, d.due_us, d.url
FROM host AS h CROSS JOIN authority AS a CROSS JOIN due AS d CROSS JOIN url AS u
WHERE h.name = ? AND a.host = h.id AND d.authority = a.id AND u.id = d.url AND u.state = 0
AND EXISTS (
  SELECT 1 FROM json_each(?) AS p WHERE substr(u.url, length(a.name) + 1, length(p.value)) = p.value
)
LIMIT ?;

-- name: url_cancel
-- A row that an operator took out. 8 is cancelled.
UPDATE url SET state = 8, reason = ?, due_us = 0 WHERE id = ?;

-- name: cancelled_of_host
-- Rows of a host that were taken out for a reason, but those whose paths begin with one of a list.
SELECT u.id, u.authority FROM url AS u JOIN authority AS a ON a.id = u.authority JOIN host AS h ON h.id = a.host
WHERE u.state = ? AND u.reason = ? AND h.name = ? AND NOT EXISTS (
  SELECT 1 FROM json_each(?) AS p WHERE substr(u.url, length(a.name) + 1, length(p.value)) = p.value
)
ORDER BY u.id LIMIT ?;

-- name: cancelled_hosts
-- Hosts with rows that were taken out for a reason. 8 is cancelled.
SELECT DISTINCT h.name FROM url AS u JOIN authority AS a ON a.id = u.authority JOIN host AS h ON h.id = a.host
WHERE u.state = 8 AND u.reason = ? ORDER BY h.name;

-- name: shift_url
-- Move due times of rows with a moved wall clock.
UPDATE url SET due_us = max(1, due_us + ?) WHERE due_us > 0;

-- name: shift_due
-- Move the due index with a moved wall clock.
UPDATE due SET due_us = max(1, due_us + ?) WHERE due_us > 0;

-- name: shift_lease
-- Move leases with a moved wall clock.
UPDATE lease SET lease_us = max(1, lease_us + ?);

-- name: shift_host
-- Move waits of hosts with a moved wall clock.
UPDATE host SET wait_us = max(1, wait_us + ?) WHERE wait_us > 0;

-- name: shift_broken
-- Move the beginnings of hosts' troubles with a moved wall clock.
UPDATE host SET broken_us = max(1, broken_us + ?) WHERE broken_us > 0;

-- name: shift_authority
-- Move waits of authorities with a moved wall clock.
UPDATE authority SET wait_us = max(1, wait_us + ?) WHERE wait_us > 0;

-- name: shift_job_due
-- Move due times of parse jobs with a moved wall clock.
UPDATE job SET due_us = max(1, due_us + ?) WHERE due_us > 0;

-- name: shift_job_lease
-- Move leases of parse jobs with a moved wall clock.
UPDATE job SET lease_us = max(1, lease_us + ?) WHERE lease_us > 0;

-- name: shift_log
-- Move the ages that retention goes by with a moved wall clock.
UPDATE log SET written_us = max(1, written_us + ?) WHERE written_us > 0;
