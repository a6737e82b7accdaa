CREATE TABLE {t}runs (
    id TEXT NOT NULL PRIMARY KEY,
    session TEXT,
    project TEXT NOT NULL,
    caller TEXT NOT NULL,
    plane TEXT NOT NULL,
    phase TEXT NOT NULL,
    until INTEGER,
    outcome TEXT,
    reason BLOB,
    detail TEXT,
    finished INTEGER,
    primary_provider TEXT,
    primary_model TEXT,
    served_provider TEXT,
    served_model TEXT,
    created INTEGER NOT NULL,
    started INTEGER,
    steps INTEGER NOT NULL,
    model_calls INTEGER NOT NULL,
    tools_asked INTEGER NOT NULL,
    tools_unknown INTEGER NOT NULL,
    {totals},
    opened_shard INTEGER NOT NULL,
    opened_sequence INTEGER NOT NULL,
    last_shard INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    -- What the next fact of a run that has not ended needs.
    pending BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_created_{g} ON {t}runs (created, id);
CREATE INDEX runs_phase_{g} ON {t}runs (phase, created, id);
CREATE INDEX runs_session_{g} ON {t}runs (session, created, id);
