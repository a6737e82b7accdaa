-- One row a hold of a run, answered ones included.
CREATE TABLE {t}approvals (
    id TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    tool TEXT NOT NULL,
    subject BLOB NOT NULL,
    -- Cut where they are long; the run's stream has all of them.
    arguments TEXT NOT NULL,
    arguments_bytes INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    until INTEGER NOT NULL,
    status TEXT NOT NULL,
    answered INTEGER,
    answered_by TEXT,
    last_shard INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_asked_{g} ON {t}approvals (asked, id);
CREATE INDEX approvals_status_{g} ON {t}approvals (status, asked, id);
-- The project of a run that has not ended: only its first event says it.
CREATE TABLE {t}approvals_open (
    run TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL
) STRICT, WITHOUT ROWID;
