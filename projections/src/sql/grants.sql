-- One row a standing grant, those that ended and those taken back included.
CREATE TABLE {t}grants (
    project TEXT NOT NULL,
    grant_id TEXT NOT NULL,
    kept BLOB NOT NULL,
    last_shard INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    PRIMARY KEY (project, grant_id)
) STRICT, WITHOUT ROWID;
