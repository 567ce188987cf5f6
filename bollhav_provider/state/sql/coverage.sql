-- Coverage: the islands of applied time, one row per gap-free island, and when the rows below them were loaded, keyed
-- by state table.
--
-- Statement triggers on a state table note what a transaction changed, whoever writes the plain rows; a deferred
-- constraint trigger folds the notes at commit, state tables in one order, so that writers neither queue behind each
-- other's open transactions nor deadlock. A gate then asks about a window, a prefix or the whole range with one index
-- probe, and about the age of a prefix or of everything with a few (Semantics: gates).
--
-- The functions that triggers point at carry a format number instead of a digest of their content: programs of several
-- versions keep one set of triggers between them. Change the number when the tables below change their meaning.

CREATE TABLE IF NOT EXISTS @schema@.coverage (
    state regclass NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (state, since),
    CHECK (since < until)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- One row per state table whose coverage is kept. Updating it is the lock of the fold: an UPDATE, so that a transaction
-- in REPEATABLE READ fails instead of folding a stale view. `longest` is at least the length of every applied row, in
-- seconds only (a day of an interval is no fixed time); it bounds every search for rows that overlap something. `name` is
-- the table's when the triggers were installed.
CREATE TABLE IF NOT EXISTS @schema@.coverage_head (
    state regclass PRIMARY KEY,
    name text NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    longest interval NOT NULL DEFAULT '0'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The oldest and newest applied_at of the rows that start in a block of time: of 2^18 seconds (3 days) at level 0, of 64
-- blocks of the level below at levels 1 (194 days) and 2 (34 years). A row without applied_at counts as loaded in the
-- beginning.
CREATE TABLE IF NOT EXISTS @schema@.coverage_loads (
    state regclass NOT NULL,
    level smallint NOT NULL,
    block integer NOT NULL,
    oldest timestamptz NOT NULL,
    newest timestamptz,
    PRIMARY KEY (state, level, block)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- What open transactions changed; empty whenever none is open.
CREATE TABLE IF NOT EXISTS @schema@.coverage_delta (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    state regclass NOT NULL,
    added tstzmultirange,
    removed tstzmultirange,
    longest interval,
    blocks integer[],           -- of rows that became applied, with their ages; parallel arrays
    oldest timestamptz[],
    newest timestamptz[],
    again integer[]             -- blocks of rows that were applied and are no longer what they were
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE INDEX IF NOT EXISTS coverage_delta_xid_idx ON @schema@.coverage_delta (xid);

-- The windows of applied rows that count. A row that no window can be made of (one end missing or
-- beyond the years 1 to 9999, inverted) covers nothing, and must not make its writer fail.
CREATE OR REPLACE FUNCTION @schema@.coverage_counts_1(since timestamptz, until timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN since < until AND since >= timestamptz '0001-01-01 00:00:00+00'
    AND until < timestamptz '10000-01-01 00:00:00+00';

CREATE OR REPLACE FUNCTION @schema@.coverage_seconds_1(since timestamptz, until timestamptz) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN make_interval(secs => extract(epoch FROM until - since)::double precision);

-- Such small functions are written so that the planner inlines them: calling one costs more than a whole probe.
CREATE OR REPLACE FUNCTION @schema@.coverage_block_1(at timestamptz) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN floor(extract(epoch FROM at - 'epoch'::timestamptz)::double precision / 262144)::integer;

CREATE OR REPLACE FUNCTION @schema@.coverage_block_start_1(block integer) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_timestamp(block::double precision * 262144);

-- Bring the islands of one state table up to date with one note. The caller holds the lock and says the length of the
-- longest row.
CREATE OR REPLACE FUNCTION @schema@.coverage_fold_1(
    rel regclass, added tstzmultirange, removed tstzmultirange, bound interval
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept tstzmultirange;
    piece tstzrange;
    first timestamptz;
    old tstzmultirange;
    new tstzmultirange;
BEGIN
    added := coalesce(added, '{}');
    removed := coalesce(removed, '{}') - added;
    IF isempty(added) AND isempty(removed) THEN
        RETURN;
    END IF;
    IF NOT isempty(removed) THEN
        -- what other applied rows still cover of it: rows may overlap
        EXECUTE format(
            'SELECT range_agg(tstzrange(greatest(s.since, lower(q.r)), least(s.until, upper(q.r))))
               FROM unnest($1) q(r) JOIN %s s
                 ON s.status = ''applied'' AND s.since < upper(q.r) AND s.until > lower(q.r)
                AND s.since > lower(q.r) - $2 AND @schema@.coverage_counts_1(s.since, s.until)', rel)
           INTO kept USING removed, bound;
        added := added + coalesce(kept, '{}');
        removed := removed - added;
    END IF;
    FOR piece IN SELECT unnest(added + removed) LOOP
        first := coalesce(
            (SELECT c.since FROM @schema@.coverage c
              WHERE c.state = rel AND c.since <= lower(piece) ORDER BY c.since DESC LIMIT 1),
            lower(piece));
        SELECT coalesce(range_agg(tstzrange(c.since, c.until)), '{}') INTO old
          FROM @schema@.coverage c
         WHERE c.state = rel AND c.since >= first AND c.since <= upper(piece) AND c.until >= lower(piece);
        new := old - removed + (added * tstzmultirange(piece));
        CONTINUE WHEN new = old;
        DELETE FROM @schema@.coverage c
         WHERE c.state = rel AND c.since >= first AND c.since <= upper(piece) AND c.until >= lower(piece)
           AND NOT EXISTS (SELECT FROM unnest(new) u WHERE lower(u) = c.since);
        INSERT INTO @schema@.coverage AS c (state, since, until)
        SELECT rel, lower(u), upper(u) FROM unnest(new) u
            ON CONFLICT (state, since) DO UPDATE SET until = excluded.until WHERE c.until <> excluded.until;
    END LOOP;
END $$;

-- Bring the ages of blocks up to date: rows that came are merged, blocks in `again` are worked out from their rows.
CREATE OR REPLACE FUNCTION @schema@.coverage_age_1(
    rel regclass, blocks integer[], oldest timestamptz[], newest timestamptz[], again integer[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    found integer[];
BEGIN
    INSERT INTO @schema@.coverage_loads AS l (state, level, block, oldest, newest)
    SELECT rel, w.level, u.block >> (6 * w.level), min(u.oldest), max(u.newest)
      FROM unnest(blocks, oldest, newest) u(block, oldest, newest), (VALUES (0), (1), (2)) w(level)
     GROUP BY 2, 3
        ON CONFLICT (state, level, block) DO UPDATE
       SET oldest = least(l.oldest, excluded.oldest), newest = greatest(l.newest, excluded.newest);
    IF again = '{}' THEN
        RETURN;
    END IF;
    again := ARRAY(SELECT DISTINCT unnest(again));
    -- block by block, each a range of the index on since
    EXECUTE format(
        'SELECT array_agg(b.block), array_agg(r.oldest), array_agg(r.newest)
           FROM unnest($1) b(block)
           CROSS JOIN LATERAL (
               SELECT count(*) AS n, min(coalesce(s.applied_at, ''-infinity'')) AS oldest, max(s.applied_at) AS newest
                 FROM %s s
                WHERE s.since >= @schema@.coverage_block_start_1(b.block)
                  AND s.since < @schema@.coverage_block_start_1(b.block + 1)
                  AND s.status = ''applied'' AND @schema@.coverage_counts_1(s.since, s.until)) r
          WHERE r.n > 0', rel) INTO found, oldest, newest USING again;
    FOR height IN 0..2 LOOP
        IF height > 0 THEN
            again := ARRAY(SELECT DISTINCT b >> 6 FROM unnest(again) b);
            SELECT array_agg(g.block), array_agg(g.oldest), array_agg(g.newest) INTO found, oldest, newest
              FROM (SELECT b.block, min(n.oldest) AS oldest, max(n.newest) AS newest
                      FROM unnest(again) b(block)
                      JOIN @schema@.coverage_loads n
                        ON n.state = rel AND n.level = height - 1
                       AND n.block BETWEEN b.block << 6 AND (b.block << 6) + 63
                     GROUP BY b.block) g;
        END IF;
        DELETE FROM @schema@.coverage_loads l
         WHERE l.state = rel AND l.level = height
           AND l.block = ANY (again) AND l.block <> ALL (coalesce(found, '{}'));
        INSERT INTO @schema@.coverage_loads AS l (state, level, block, oldest, newest)
        SELECT rel, height, u.block, u.oldest, u.newest
          FROM unnest(found, oldest, newest) u(block, oldest, newest)
            ON CONFLICT (state, level, block) DO UPDATE SET oldest = excluded.oldest, newest = excluded.newest
         WHERE (l.oldest, l.newest) IS DISTINCT FROM (excluded.oldest, excluded.newest);
    END LOOP;
END $$;

-- Note what one statement changed. SECURITY DEFINER: a writer with rights on its state table alone must succeed.
CREATE OR REPLACE FUNCTION @schema@.coverage_note_1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    after bigint := 0;
    before bigint := 0;
    loaded bigint := 0;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN  -- which locks everybody out, so there is nothing to wait for
        DELETE FROM @schema@.coverage WHERE state = TG_RELID;
        DELETE FROM @schema@.coverage_loads WHERE state = TG_RELID;
        UPDATE @schema@.coverage_head SET version = version + 1, longest = '0' WHERE state = TG_RELID;
        DELETE FROM @schema@.coverage_delta WHERE xid = pg_current_xact_id() AND state = TG_RELID;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        SELECT count(*), count(*) FILTER (WHERE @schema@.coverage_counts_1(since, until)) INTO loaded, after
          FROM bollhav_new WHERE status = 'applied';
        IF loaded > 0 THEN
            PERFORM pg_notify(@schema_literal@, TG_TABLE_NAME);    -- who waits hears of every writer's commit
        END IF;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        SELECT count(*) INTO before
          FROM bollhav_old WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until);
    END IF;
    IF after = 0 AND before = 0 THEN
        RETURN NULL;
    ELSIF before = 0 THEN
        INSERT INTO @schema@.coverage_delta (state, added, longest, blocks, oldest, newest)
        SELECT TG_RELID, c.covered, c.longest, f.blocks, f.oldest, f.newest
          FROM (SELECT range_agg(tstzrange(since, until)) AS covered,
                       max(@schema@.coverage_seconds_1(since, until)) AS longest
                  FROM bollhav_new WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until)) c,
               (SELECT array_agg(g.block) AS blocks, array_agg(g.oldest) AS oldest, array_agg(g.newest) AS newest
                  FROM (SELECT @schema@.coverage_block_1(since) AS block,
                               min(coalesce(applied_at, '-infinity')) AS oldest, max(applied_at) AS newest
                          FROM bollhav_new
                         WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until) GROUP BY 1) g) f;
        RETURN NULL;
    ELSIF after = 0 THEN
        INSERT INTO @schema@.coverage_delta (state, removed, again)
        SELECT TG_RELID, range_agg(tstzrange(since, until)), array_agg(DISTINCT @schema@.coverage_block_1(since))
          FROM bollhav_old WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until);
        RETURN NULL;
    END IF;
    -- an update of applied rows that changes nothing of this (a message) is noted only when it is large
    IF after = before AND after <= 64 AND NOT EXISTS (
        (SELECT since, until, applied_at FROM bollhav_new
          WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until))
        EXCEPT
        (SELECT since, until, applied_at FROM bollhav_old
          WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until)))
    THEN
        RETURN NULL;
    END IF;
    INSERT INTO @schema@.coverage_delta (state, added, removed, longest, again)
    SELECT TG_RELID, range_agg(tstzrange(r.since, r.until)) FILTER (WHERE r.is_new),
           range_agg(tstzrange(r.since, r.until)) FILTER (WHERE NOT r.is_new),
           max(@schema@.coverage_seconds_1(r.since, r.until)) FILTER (WHERE r.is_new),
           array_agg(DISTINCT @schema@.coverage_block_1(r.since))
      FROM (SELECT since, until, true AS is_new FROM bollhav_new
             WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until)
            UNION ALL
            SELECT since, until, false FROM bollhav_old
             WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until)) r;
    RETURN NULL;
END $$;

-- Fold everything that this transaction noted. The first firing at commit does it all.
CREATE OR REPLACE FUNCTION @schema@.coverage_settle_1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    note record;
    rel regclass;
    bound interval;
    blocks integer[];
    oldest timestamptz[];
    newest timestamptz[];
    again integer[];
BEGIN
    FOR note IN
        WITH mine AS (
            DELETE FROM @schema@.coverage_delta WHERE xid = pg_current_xact_id()
            RETURNING *
        )
        SELECT * FROM mine ORDER BY state, id
    LOOP
        IF rel IS DISTINCT FROM note.state THEN
            IF bound IS NOT NULL THEN
                PERFORM @schema@.coverage_age_1(rel, blocks, oldest, newest, again);
            END IF;
            blocks := '{}'; oldest := '{}'; newest := '{}'; again := '{}';
        END IF;
        rel := note.state;
        blocks := blocks || note.blocks; oldest := oldest || note.oldest; newest := newest || note.newest;
        again := again || note.again;
        -- one writer per state table from here to commit
        UPDATE @schema@.coverage_head h
           SET version = h.version + 1, longest = greatest(h.longest, coalesce(note.longest, h.longest))
         WHERE h.state = rel
        RETURNING h.longest INTO bound;
        -- a table that is not kept (any more) has no such row; a later install starts from its rows
        IF bound IS NOT NULL THEN
            PERFORM @schema@.coverage_fold_1(rel, note.added, note.removed, bound);
        END IF;
    END LOOP;
    IF bound IS NOT NULL THEN
        PERFORM @schema@.coverage_age_1(rel, blocks, oldest, newest, again);
    END IF;
    RETURN NULL;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_catalog.pg_trigger
         WHERE tgrelid = '@schema@.coverage_delta'::regclass AND tgname = 'bollhav_coverage_settle'
    ) THEN
        CREATE CONSTRAINT TRIGGER bollhav_coverage_settle AFTER INSERT ON @schema@.coverage_delta
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION @schema@.coverage_settle_1();
    END IF;
END $$;
