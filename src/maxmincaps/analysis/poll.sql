-- The tables of a poll. The application id in the header of the file is "mmcp" as a number.
PRAGMA application_id = 1835885424;
PRAGMA user_version = 1;
CREATE TABLE poll (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE question (
    number INTEGER PRIMARY KEY,
    image INTEGER NOT NULL,
    label INTEGER NOT NULL,
    prediction INTEGER NOT NULL,
    lengths TEXT NOT NULL,
    png BLOB NOT NULL
) STRICT;
CREATE TABLE answer (
    person TEXT NOT NULL,
    number INTEGER NOT NULL REFERENCES question,
    label INTEGER NOT NULL,
    answered_at TEXT NOT NULL,
    PRIMARY KEY (person, number)
) STRICT, WITHOUT ROWID;
