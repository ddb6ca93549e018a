-- name: repair_insert
-- Open a repair item, unless it is open.
INSERT INTO repair (kind, subject, detail, created_us) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: repair_delete
-- Close a repair item.
DELETE FROM repair WHERE kind = ? AND subject = ?;

-- name: repairs
-- Open repair items, oldest first.
SELECT kind, subject, detail, created_us FROM repair ORDER BY created_us, kind, subject;

-- name: notice_add
-- Add to the undelivered notice of a kind, host and reason, or start one.
INSERT INTO notice (kind, host, reason, count, sample, first_us, last_us) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, host, reason) DO UPDATE SET count = count + excluded.count, last_us = max(last_us, excluded.last_us);

-- name: notices
-- Undelivered notices, oldest first.
SELECT id, kind, host, reason, count, sample, first_us, last_us FROM notice WHERE count > 0 ORDER BY id;

-- name: notices_kept
-- Notices of one kind, whether delivered or not: of kinds that stay true.
SELECT reason FROM notice WHERE kind = ? ORDER BY id;

-- name: notice_subtract
-- What was delivered of a notice.
UPDATE notice SET count = count - ? WHERE id = ?;

-- name: notice_end
-- A notice that was delivered whole. What is damaged stays so: every listing goes on telling of it.
DELETE FROM notice WHERE id = ? AND count <= 0 AND kind <> 'damaged_segment';
