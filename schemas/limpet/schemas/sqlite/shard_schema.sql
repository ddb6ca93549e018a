-- One shard of a crawl: everything its owner must remember. Times are microseconds since the epoch, 0 = none.

CREATE TABLE host (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  wait_us INTEGER NOT NULL DEFAULT 0,
  wait_reason TEXT NOT NULL DEFAULT '',
  response_us INTEGER NOT NULL DEFAULT 0,
  failing INTEGER NOT NULL DEFAULT 0,
  urls INTEGER NOT NULL DEFAULT 0,
  addresses TEXT NOT NULL DEFAULT '',
  transient INTEGER NOT NULL DEFAULT 0,
  refused INTEGER NOT NULL DEFAULT 0,
  trips INTEGER NOT NULL DEFAULT 0,
  broken_us INTEGER NOT NULL DEFAULT 0
);

-- Requests sent to hosts of this shard in each UTC day (days since 1970), robots.txt and redirects included.
CREATE TABLE day (
  day INTEGER PRIMARY KEY,
  requests INTEGER NOT NULL
);

-- Requests for robots.txt, for the log; seq is the order in which they were stored. data is the whole RobotsFetch.
CREATE TABLE robots_fetch (
  seq INTEGER PRIMARY KEY,
  fetched_us INTEGER NOT NULL,
  url TEXT NOT NULL,
  data BLOB NOT NULL,
  UNIQUE (url, fetched_us)
);

-- The unit of robots.txt, and one queue of the due index.
CREATE TABLE authority (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  host INTEGER NOT NULL,
  robots BLOB NOT NULL DEFAULT x'',
  robots_digest TEXT NOT NULL DEFAULT '',
  wait_us INTEGER NOT NULL DEFAULT 0,
  wait_reason TEXT NOT NULL DEFAULT ''
);

-- key is '' when it equals url. state is a code of limpet.urlstore.sqlite.codes; a leased URL keeps the state it was
-- claimed from here and has a row in lease. page tells whether it was counted among the pages.
CREATE TABLE url (
  id INTEGER PRIMARY KEY,
  fp BLOB NOT NULL UNIQUE,
  authority INTEGER NOT NULL,
  state INTEGER NOT NULL,
  lane INTEGER NOT NULL DEFAULT 1,
  due_us INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  interruptions INTEGER NOT NULL DEFAULT 0,
  latest_us INTEGER NOT NULL DEFAULT 0,
  page INTEGER NOT NULL DEFAULT 0,
  depth INTEGER NOT NULL,
  seed INTEGER NOT NULL,
  admitted_us INTEGER NOT NULL,
  reason TEXT NOT NULL DEFAULT '',
  hops TEXT NOT NULL,
  kind TEXT NOT NULL,
  via BLOB NOT NULL,
  url TEXT NOT NULL,
  key TEXT NOT NULL
);

-- State 3 is denied: found again when the robots.txt of its authority changes.
CREATE INDEX url_denied ON url (authority) WHERE state = 3;

-- The due index: one entry for each row that can be claimed now or later.
CREATE TABLE due (
  authority INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  due_us INTEGER NOT NULL,
  url INTEGER NOT NULL,
  PRIMARY KEY (authority, lane, due_us, url)
) WITHOUT ROWID;

CREATE TABLE lease (
  fp BLOB PRIMARY KEY,
  url INTEGER NOT NULL,
  authority INTEGER NOT NULL,
  token BLOB NOT NULL,
  lease_us INTEGER NOT NULL,
  alone INTEGER NOT NULL,
  holder TEXT NOT NULL
) WITHOUT ROWID;

-- A candidate whose fingerprint belongs to another identity: in review, beside the row it must not touch.
CREATE TABLE clash (
  fp BLOB NOT NULL,
  key TEXT NOT NULL,
  candidate BLOB NOT NULL,
  admitted_us INTEGER NOT NULL,
  PRIMARY KEY (fp, key)
) WITHOUT ROWID;

-- seq is the order of completion. state is the code of the state the completion gave. authority, answer (the status, or
-- the kind of failure), wire_bytes and mime repeat what data or the row says, so that sums need not decode every record.
CREATE TABLE outcome (
  seq INTEGER PRIMARY KEY,
  url INTEGER NOT NULL,
  fetched_us INTEGER NOT NULL,
  completed_us INTEGER NOT NULL,
  state INTEGER NOT NULL,
  authority INTEGER NOT NULL,
  wire_bytes INTEGER NOT NULL,
  answer TEXT NOT NULL,
  mime TEXT NOT NULL,
  data BLOB NOT NULL,
  UNIQUE (url, fetched_us)
);

-- URLs that left the queue without a request: denied, waited out, cancelled. For the log; the rows are the authority.
CREATE TABLE ended (
  seq INTEGER PRIMARY KEY,
  url INTEGER NOT NULL,
  ended_us INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason TEXT NOT NULL
);

CREATE TABLE seed (
  url TEXT PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE reject (
  host TEXT NOT NULL,
  rule TEXT NOT NULL,
  count INTEGER NOT NULL,
  samples BLOB NOT NULL,
  PRIMARY KEY (host, rule)
) WITHOUT ROWID;

CREATE TABLE output (
  fp BLOB NOT NULL,
  fetched_us INTEGER NOT NULL,
  parser_version INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (fp, fetched_us, parser_version)
) WITHOUT ROWID;

CREATE TABLE job (
  fp BLOB NOT NULL,
  fetched_us INTEGER NOT NULL,
  event BLOB NOT NULL,
  attempt INTEGER NOT NULL,
  due_us INTEGER NOT NULL,
  reason TEXT NOT NULL,
  token BLOB NOT NULL,
  lease_us INTEGER NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (fp, fetched_us)
) WITHOUT ROWID;

CREATE TABLE repair (
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  PRIMARY KEY (kind, subject)
) WITHOUT ROWID;

CREATE TABLE notice (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  host TEXT NOT NULL,
  reason TEXT NOT NULL,
  count INTEGER NOT NULL,
  sample TEXT NOT NULL,
  first_us INTEGER NOT NULL,
  last_us INTEGER NOT NULL,
  UNIQUE (kind, host, reason)
);

-- The outgoing log of all topics. AUTOINCREMENT: an offset is never used twice, even after everything was trimmed.
CREATE TABLE log (
  offset INTEGER PRIMARY KEY AUTOINCREMENT,
  topic TEXT NOT NULL,
  part INTEGER NOT NULL,
  written_us INTEGER NOT NULL,
  payload BLOB NOT NULL
);

-- Per topic and partition: the first offset not trimmed, and one past the last one written.
CREATE TABLE log_part (
  topic TEXT NOT NULL,
  part INTEGER NOT NULL,
  start INTEGER NOT NULL,
  finish INTEGER NOT NULL,
  PRIMARY KEY (topic, part)
) WITHOUT ROWID;

-- Committed offsets of this shard's consumers: the next message to read from each source.
CREATE TABLE consumed (
  topic TEXT NOT NULL,
  part INTEGER NOT NULL,
  source INTEGER NOT NULL,
  next INTEGER NOT NULL,
  PRIMARY KEY (topic, part, source)
) WITHOUT ROWID;

-- Messages that were begun after an unclean start, and how often.
CREATE TABLE mark (
  topic TEXT NOT NULL,
  part INTEGER NOT NULL,
  source INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  PRIMARY KEY (topic, part, source, offset)
) WITHOUT ROWID;

-- A row as the port shows it: state 1 (leased) while it has a lease.
CREATE VIEW url_row AS
SELECT
  u.id, u.fp, u.key, u.url, h.name AS host, a.name AS authority, iif(l.fp IS NULL, u.state, 1) AS state, u.reason,
  u.due_us, u.depth, u.hops, u.kind, u.seed, u.via, u.failures, u.interruptions, u.latest_us, u.admitted_us,
  l.token, l.lease_us, l.holder, l.alone
FROM url AS u
JOIN authority AS a ON a.id = u.authority
JOIN host AS h ON h.id = a.host
LEFT JOIN lease AS l ON l.fp = u.fp;
