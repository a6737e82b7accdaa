CREATE TABLE {t}keys (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    hash BLOB NOT NULL,
    issued INTEGER NOT NULL,
    revoked INTEGER,
    last_shard INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
