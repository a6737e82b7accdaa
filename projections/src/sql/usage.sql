-- One row a run that has not ended: whom its next settled call belongs to.
CREATE TABLE {t}usage_open (
    run TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    caller TEXT NOT NULL,
    role TEXT NOT NULL,
    phase TEXT,
    pending BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE {t}usage_runs (
    run TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    role TEXT NOT NULL,
    -- Empty where the run belongs to none: a key has no null.
    phase TEXT NOT NULL,
    {totals},
    PRIMARY KEY (run, provider, model, role, phase)
) STRICT, WITHOUT ROWID;
CREATE TABLE {t}usage_days (
    day INTEGER NOT NULL,
    project TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    caller TEXT NOT NULL,
    role TEXT NOT NULL,
    phase TEXT NOT NULL,
    {totals},
    PRIMARY KEY (day, project, provider, model, caller, role, phase)
) STRICT, WITHOUT ROWID;
-- For trailing windows.
CREATE TABLE {t}usage_minutes (
    minute INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    role TEXT NOT NULL,
    phase TEXT NOT NULL,
    {totals},
    PRIMARY KEY (minute, provider, model, role, phase)
) STRICT, WITHOUT ROWID;
-- Settled calls of which it is known whose secret they were made with.
CREATE TABLE {t}usage_profiles (
    provider TEXT NOT NULL,
    profile TEXT NOT NULL,
    {totals},
    PRIMARY KEY (provider, profile)
) STRICT, WITHOUT ROWID;
-- Providers and models that were meant to serve, and who served instead.
CREATE TABLE {t}usage_fallbacks (
    primary_provider TEXT NOT NULL,
    primary_model TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    role TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (primary_provider, primary_model, provider, model, role, reason)
) STRICT, WITHOUT ROWID;
