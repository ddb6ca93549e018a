-- name: lease_count
-- How many URLs are leased.
SELECT count(*) FROM lease;

-- name: repair_count
-- How many repair items are open.
SELECT count(*) FROM repair;

-- name: job_counts
-- How many jobs are in each state.
SELECT state, count(*) FROM job GROUP BY state;

-- name: reasons_of_state
-- How many rows are in one state, for each reason.
SELECT reason, count(*) FROM url WHERE state = ? GROUP BY reason;
