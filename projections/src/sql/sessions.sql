CREATE TABLE {t}sessions (
    id TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    parent TEXT,
    parent_at INTEGER,
    title TEXT,
    messages INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    holder TEXT,
    closed INTEGER,
    opened INTEGER NOT NULL,
    active INTEGER NOT NULL,
    last_shard INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_active_{g} ON {t}sessions (active, id);
CREATE INDEX sessions_project_{g} ON {t}sessions (project, active, id);
