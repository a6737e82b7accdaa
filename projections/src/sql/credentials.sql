-- One row a profile of a provider, removed ones included.
CREATE TABLE {t}credentials (
    provider TEXT NOT NULL,
    profile TEXT NOT NULL,
    kept BLOB NOT NULL,
    last_shard INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    PRIMARY KEY (provider, profile)
) STRICT, WITHOUT ROWID;
