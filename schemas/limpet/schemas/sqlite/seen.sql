-- name: seen_one
-- Whether a fingerprint is marked.
SELECT 1 FROM seen WHERE fp = ?;

-- name: seen_add
-- Mark all fingerprints of a string of 16-byte items, in one statement.
WITH RECURSIVE item (start) AS (
  SELECT 1 UNION ALL SELECT start + 16 FROM item WHERE start + 16 <= length(?1)
)
INSERT INTO seen (fp) SELECT substr(?1, start, 16) FROM item WHERE true ON CONFLICT DO NOTHING;
