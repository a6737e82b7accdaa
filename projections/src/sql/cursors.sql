-- Where each set of tables stands in the log, and of which history and fold its rows are.
CREATE TABLE cursors (
    projection TEXT NOT NULL,
    tables TEXT NOT NULL CHECK (tables IN ('live', 'shadow')),
    shard INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    hash BLOB NOT NULL,
    journal BLOB NOT NULL,
    restores INTEGER NOT NULL,
    code INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    halted_at INTEGER,
    halted_reason TEXT,
    PRIMARY KEY (projection, tables)
) STRICT, WITHOUT ROWID;
