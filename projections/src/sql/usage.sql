-- One row a run that has not ended: whom its next settled call belongs to.
CREATE TABLE {t}usage_open (
    run TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    caller TEXT NOT NULL,
    pending BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE {t}usage_runs (
    run TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    {totals},
    PRIMARY KEY (run, provider, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE {t}usage_days (
    day INTEGER NOT NULL,
    project TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    caller TEXT NOT NULL,
    {totals},
    PRIMARY KEY (day, project, provider, model, caller)
) STRICT, WITHOUT ROWID;
-- For trailing windows.
CREATE TABLE {t}usage_minutes (
    minute INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    {totals},
    PRIMARY KEY (minute, provider, model)
) STRICT, WITHOUT ROWID;
