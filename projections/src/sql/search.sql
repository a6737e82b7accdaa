CREATE VIRTUAL TABLE {t}search USING fts5 (
    text,
    kind UNINDEXED,
    project UNINDEXED,
    stream UNINDEXED,
    item UNINDEXED,
    version UNINDEXED,
    at UNINDEXED,
    tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TABLE {t}search_sessions (
    id TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    messages INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
