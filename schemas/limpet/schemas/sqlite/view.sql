-- name: lease_count
-- How many URLs are leased.
SELECT count(*) FROM lease;

-- name: repair_count
-- How many repair items are open.
SELECT count(*) FROM repair;

-- name: job_counts
-- How many jobs are in each state.
SELECT state, count(*) FROM job GROUP BY state;
