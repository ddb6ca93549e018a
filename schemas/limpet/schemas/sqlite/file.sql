-- name: meta_get
-- One value of the file's own book-keeping.
SELECT value FROM meta WHERE name = ?;

-- name: meta_put
-- Set one value of the file's own book-keeping.
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: counters_get
-- All counters, as JSON.
SELECT totals FROM counter WHERE id = 1;

-- name: counters_put
-- Replace all counters, in the transaction that changed what they count.
INSERT INTO counter (id, totals) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET totals = excluded.totals;
