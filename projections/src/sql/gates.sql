-- One row a gate of a project that has a history.
CREATE TABLE {t}gates (
    project TEXT NOT NULL,
    gate TEXT NOT NULL,
    kept BLOB NOT NULL,
    last_shard INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    PRIMARY KEY (project, gate)
) STRICT, WITHOUT ROWID;
