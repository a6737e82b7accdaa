-- One row a tool call that went through the broker.
CREATE TABLE {t}invocations (
    id TEXT NOT NULL PRIMARY KEY,
    correlation BLOB NOT NULL,
    project TEXT NOT NULL,
    tool TEXT NOT NULL,
    stage TEXT NOT NULL,
    state TEXT NOT NULL,
    -- The class of a rejection, or why nobody knows.
    why TEXT,
    policy_revision INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    settled INTEGER,
    lease_until INTEGER NOT NULL,
    settled_by TEXT,
    last_shard INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX invocations_asked_{g} ON {t}invocations (asked, id);
CREATE INDEX invocations_state_{g} ON {t}invocations (state, asked, id);
-- The project of a run that has not ended: only its first event says it.
CREATE TABLE {t}invocations_open (
    run TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL
) STRICT, WITHOUT ROWID;
