-- Which history and fold the rows of each set of tables are of, and where it was halted, if it was.
CREATE TABLE sets (
    projection TEXT NOT NULL,
    tables TEXT NOT NULL CHECK (tables IN ('live', 'shadow')),
    journal BLOB NOT NULL,
    restores INTEGER NOT NULL,
    code INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    halted_shard INTEGER,
    halted_at INTEGER,
    halted_reason TEXT,
    PRIMARY KEY (projection, tables)
) STRICT, WITHOUT ROWID;
-- Where each of them stands in each shard of the log.
CREATE TABLE cursors (
    projection TEXT NOT NULL,
    tables TEXT NOT NULL CHECK (tables IN ('live', 'shadow')),
    shard INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (projection, tables, shard)
) STRICT, WITHOUT ROWID;
