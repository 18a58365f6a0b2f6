CREATE TABLE user (name TEXT PRIMARY KEY, role TEXT NOT NULL, created REAL NOT NULL)

CREATE TABLE token (id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user (name), digest BLOB NOT NULL, created REAL
    NOT NULL, expires REAL NOT NULL, revoked REAL)

CREATE TABLE session (digest BLOB PRIMARY KEY, token TEXT NOT NULL REFERENCES token (id), expires REAL NOT NULL)

CREATE TABLE submission (id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user (name), benchmark TEXT NOT NULL,
    model TEXT NOT NULL, file TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, created REAL NOT NULL,
    state TEXT NOT NULL, starts INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '', public TEXT, private TEXT,
    field TEXT NOT NULL DEFAULT '')

CREATE INDEX of_user ON submission (benchmark, user, created)

CREATE INDEX waiting ON submission (state)

CREATE TABLE closing (benchmark TEXT PRIMARY KEY, at REAL NOT NULL)

CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, about
    TEXT NOT NULL)

CREATE TRIGGER log_is_kept BEFORE DELETE ON log BEGIN SELECT RAISE (ABORT, 'the log is only added to'); END

CREATE TRIGGER log_is_not_changed BEFORE UPDATE ON log BEGIN SELECT RAISE (ABORT, 'the log is only added to'); END

-- Facts that tie the database to its files.
CREATE TABLE mark (name TEXT PRIMARY KEY, value TEXT NOT NULL)
