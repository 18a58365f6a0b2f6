-- find_closing
SELECT at FROM closing WHERE benchmark = ?

-- count_uncounted: a user's files since a moment that do not count
SELECT count(*) FROM submission WHERE user = ? AND created >= ?
    AND state NOT IN ('validated', 'measuring', 'done', 'stopped')

-- count_counted: a user's files that count, in all and since a moment
SELECT count(*), coalesce(sum(created >= ?), 0) FROM submission WHERE benchmark = ? AND user = ?
    AND state IN ('validated', 'measuring', 'done', 'stopped')

-- end: a file that is under way still
UPDATE submission SET state = ?, error = ?, public = ?, private = ? WHERE id = ?
    AND state IN ('received', 'validated', 'measuring')

-- find_next: a file that was begun already, else one of the user with the fewest files since a moment
WITH had AS (
    SELECT user, count(*) AS files FROM submission
    WHERE created >= ? AND state NOT IN ('received', 'validated', 'measuring') GROUP BY user
)
SELECT submission.* FROM submission LEFT JOIN had USING (user) WHERE state IN ('received', 'validated')
ORDER BY state != 'validated', coalesce(files, 0), submission.rowid LIMIT 1

-- insert
INSERT INTO submission (id, user, benchmark, model, file, sha256, bytes, created, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'received')

-- find_token: one that is good
SELECT 1 FROM token WHERE id = ? AND revoked IS NULL AND expires > ?

-- find_size
SELECT 1 FROM submission WHERE user = ? AND benchmark = ? AND bytes BETWEEN ? AND ? LIMIT 1

-- find_same: the same bytes and ending that were sent before; of refused ones, those since a moment
SELECT id, state, model FROM submission WHERE user = ? AND benchmark = ? AND sha256 = ? AND substr(file, -length(?)) = ?
    AND (state IN ('received', 'validated', 'measuring', 'done') OR (state = 'refused' AND created >= ?))
ORDER BY rowid LIMIT 1

-- find_failed: but for those whose bytes were sent again since
SELECT id FROM submission AS one WHERE state = 'failed' AND NOT EXISTS (
    SELECT 1 FROM submission AS other WHERE other.user = one.user AND other.benchmark = one.benchmark
    AND other.sha256 = one.sha256 AND other.rowid > one.rowid
    AND other.state IN ('received', 'validated', 'measuring', 'done', 'failed')
) ORDER BY rowid
