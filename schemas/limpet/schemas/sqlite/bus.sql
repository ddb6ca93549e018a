-- name: log_append
-- One message.
INSERT INTO log (topic, part, written_us, payload) VALUES (?, ?, ?, ?);

-- name: log_finish
-- One past the last message of a topic and partition.
INSERT INTO log_part (topic, part, start, finish) VALUES (?, ?, 1, ?)
ON CONFLICT (topic, part) DO UPDATE SET finish = excluded.finish;

-- name: log_begin
-- The first message of a topic and partition that was not trimmed.
UPDATE log_part SET start = max(start, ?) WHERE topic = ? AND part = ?;

-- name: log_parts
-- Start and end of every topic and partition.
SELECT topic, part, start, finish FROM log_part;

-- name: log_start
-- The first message of one topic and partition that was not trimmed.
SELECT start FROM log_part WHERE topic = ? AND part = ?;

-- name: log_from
-- Where messages lie, from an offset on; their payloads stay unread.
SELECT offset, topic, part, written_us FROM log WHERE offset >= ? ORDER BY offset LIMIT ?;

-- name: log_of_part
-- Where messages of one topic and partition lie, between two offsets.
SELECT offset FROM log WHERE offset >= ? AND offset < ? AND topic = ? AND part = ? ORDER BY offset LIMIT ?;

-- name: log_payload
-- One message.
SELECT payload FROM log WHERE offset = ?;

-- name: log_trim
-- Drop messages between two offsets, both included.
DELETE FROM log WHERE offset BETWEEN ? AND ?;

-- name: consumed_of
-- Committed offsets of one topic and partition: source, next.
SELECT source, next FROM consumed WHERE topic = ? AND part = ?;

-- name: consumed
-- All committed offsets of this shard's consumers.
SELECT topic, part, source, next FROM consumed;

-- name: consumed_put
-- Move a committed offset, never backwards.
INSERT INTO consumed (topic, part, source, next) VALUES (?, ?, ?, ?)
ON CONFLICT (topic, part, source) DO UPDATE SET next = max(next, excluded.next);

-- name: mark_add
-- One attempt more at a message.
INSERT INTO mark (topic, part, source, offset, attempts) VALUES (?, ?, ?, ?, 1)
ON CONFLICT (topic, part, source, offset) DO UPDATE SET attempts = attempts + 1
RETURNING attempts;

-- name: marks
-- Attempts at messages of one topic and partition.
SELECT source, offset, attempts FROM mark WHERE topic = ? AND part = ? ORDER BY source, offset;

-- name: mark_forget
-- A message whose attempt went well needs none.
DELETE FROM mark WHERE topic = ? AND part = ? AND source = ? AND offset = ?;

-- name: mark_delete
-- Committed messages need no marks.
DELETE FROM mark WHERE topic = ? AND part = ? AND source = ? AND offset < ?;
