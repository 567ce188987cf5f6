-- Coverage: the islands of applied time, one row per gap-free island, keyed by state table.
--
-- Statement triggers on a state table note what a transaction changed, whoever writes the plain rows; a deferred
-- constraint trigger folds the notes at commit, state tables in one order, so that writers neither queue behind each
-- other's open transactions nor deadlock. A gate then asks about a window, a prefix or the whole range with one index
-- probe (Semantics: gates).
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

-- What open transactions changed; empty whenever none is open.
CREATE TABLE IF NOT EXISTS @schema@.coverage_delta (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    state regclass NOT NULL,
    added tstzmultirange,
    removed tstzmultirange,
    longest interval
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE INDEX IF NOT EXISTS coverage_delta_xid_idx ON @schema@.coverage_delta (xid);

-- The windows of applied rows that count. A row that no window can be made of (one end missing or infinite, inverted)
-- covers nothing, and must not make its writer fail.
CREATE OR REPLACE FUNCTION @schema@.coverage_counts_1(since timestamptz, until timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN since < until AND isfinite(since) AND isfinite(until);

CREATE OR REPLACE FUNCTION @schema@.coverage_seconds_1(since timestamptz, until timestamptz) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN make_interval(secs => extract(epoch FROM until - since)::double precision);

-- Bring the islands of one state table up to date with one note.
CREATE OR REPLACE FUNCTION @schema@.coverage_fold_1(
    rel regclass, added tstzmultirange, removed tstzmultirange, note_longest interval
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bound interval;
    kept tstzmultirange;
    piece tstzrange;
    first timestamptz;
    old tstzmultirange;
    new tstzmultirange;
BEGIN
    added := coalesce(added, '{}');
    removed := coalesce(removed, '{}') - added;
    -- one writer per state table from here to commit
    UPDATE @schema@.coverage_head h
       SET version = h.version + 1, longest = greatest(h.longest, coalesce(note_longest, h.longest))
     WHERE h.state = rel
    RETURNING h.longest INTO bound;
    IF NOT FOUND THEN
        RETURN;  -- not kept (any more): a later install starts from the rows
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

-- Note what one statement changed. SECURITY DEFINER: a writer with rights on its state table alone must succeed.
CREATE OR REPLACE FUNCTION @schema@.coverage_note_1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO @schema@.coverage_delta (state, added, longest)
        SELECT TG_RELID, range_agg(tstzrange(since, until)), max(@schema@.coverage_seconds_1(since, until))
          FROM bollhav_new
         WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until)
        HAVING count(*) > 0;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO @schema@.coverage_delta (state, removed)
        SELECT TG_RELID, range_agg(tstzrange(since, until))
          FROM bollhav_old
         WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until)
        HAVING count(*) > 0;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO @schema@.coverage_delta (state, added, removed, longest)
        SELECT TG_RELID, n.covered, o.covered, n.longest
          FROM (SELECT range_agg(tstzrange(since, until)) covered,
                       max(@schema@.coverage_seconds_1(since, until)) longest
                  FROM bollhav_new
                 WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until)) n,
               (SELECT range_agg(tstzrange(since, until)) covered,
                       max(@schema@.coverage_seconds_1(since, until)) longest
                  FROM bollhav_old
                 WHERE status = 'applied' AND @schema@.coverage_counts_1(since, until)) o
         WHERE n.covered IS DISTINCT FROM o.covered OR n.longest > o.longest;
    ELSE  -- TRUNCATE locks everybody out, so there is nothing to wait for
        DELETE FROM @schema@.coverage WHERE state = TG_RELID;
        UPDATE @schema@.coverage_head SET version = version + 1, longest = '0' WHERE state = TG_RELID;
        DELETE FROM @schema@.coverage_delta WHERE xid = pg_current_xact_id() AND state = TG_RELID;
    END IF;
    RETURN NULL;
END $$;

-- Fold everything that this transaction noted. The first firing at commit does it all.
CREATE OR REPLACE FUNCTION @schema@.coverage_settle_1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    note record;
BEGIN
    FOR note IN
        WITH mine AS (
            DELETE FROM @schema@.coverage_delta WHERE xid = pg_current_xact_id()
            RETURNING id, state, added, removed, longest
        )
        SELECT * FROM mine ORDER BY state, id
    LOOP
        PERFORM @schema@.coverage_fold_1(note.state, note.added, note.removed, note.longest);
    END LOOP;
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

-- The islands as the rows say, for verification and repair.
CREATE OR REPLACE FUNCTION @schema@.coverage_truth_1(rel regclass) RETURNS tstzmultirange
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    islands tstzmultirange;
BEGIN
    EXECUTE format('SELECT range_agg(tstzrange(since, until)) FROM %s
                     WHERE status = ''applied'' AND @schema@.coverage_counts_1(since, until)', rel) INTO islands;
    RETURN coalesce(islands, '{}');
END $$;

-- Replace the islands of a kept table by what the rows say. Returns whether they differed. Writers that have not
-- committed yet fold on top of the result.
CREATE OR REPLACE FUNCTION @schema@.coverage_rebuild_1(rel regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    truth tstzmultirange;
    kept tstzmultirange;
    bound interval;
BEGIN
    UPDATE @schema@.coverage_head SET version = version + 1 WHERE state = rel;
    truth := @schema@.coverage_truth_1(rel);
    SELECT coalesce(range_agg(tstzrange(since, until)), '{}') INTO kept FROM @schema@.coverage WHERE state = rel;
    EXECUTE format('SELECT max(@schema@.coverage_seconds_1(since, until)) FROM %s
                     WHERE status = ''applied'' AND @schema@.coverage_counts_1(since, until)', rel) INTO bound;
    UPDATE @schema@.coverage_head SET longest = coalesce(bound, '0')
     WHERE state = rel AND longest <> coalesce(bound, '0');
    IF truth = kept THEN
        RETURN false;
    END IF;
    DELETE FROM @schema@.coverage WHERE state = rel;
    INSERT INTO @schema@.coverage (state, since, until) SELECT rel, lower(u), upper(u) FROM unnest(truth) u;
    RETURN true;
END $$;

-- Whether the islands of a table can be trusted: somebody keeps them, with every trigger in force. A table that was
-- dropped and made again, renamed, or restored without its triggers, is not kept.
CREATE OR REPLACE FUNCTION @schema@.coverage_kept_1(rel regclass) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM @schema@.coverage_head h
                    WHERE h.state = rel AND h.name = rel::text)
       AND 4 = (SELECT count(*) FROM pg_trigger t
                 WHERE t.tgrelid = rel AND t.tgenabled IN ('O', 'A')
                   AND t.tgname IN ('bollhav_coverage_delete', 'bollhav_coverage_insert',
                                    'bollhav_coverage_truncate', 'bollhav_coverage_update'))
$$;

-- Keep the islands of a state table from now on. Returns false where the triggers may not be installed; gates then read
-- the rows. Takes a lock that lets readers pass and waits for writers.
CREATE OR REPLACE FUNCTION @schema@.coverage_install_1(rel regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    keeper oid := (SELECT proowner FROM pg_proc WHERE oid = '@schema@.coverage_note_1'::regproc);
    table_owner oid := (SELECT relowner FROM pg_class WHERE oid = rel);
BEGIN
    IF NOT (has_table_privilege(rel, 'TRIGGER') AND has_table_privilege('@schema@.coverage_head', 'INSERT, UPDATE')
            AND has_table_privilege('@schema@.coverage', 'INSERT, UPDATE, DELETE')
            AND has_schema_privilege(@schema_literal@, 'CREATE')) THEN
        RETURN false;
    END IF;
    IF NOT has_table_privilege(keeper, rel, 'SELECT') THEN
        -- the fold reads the rows as the functions' owner; without that every un-apply of the writer would fail
        IF NOT pg_has_role(table_owner, 'USAGE') THEN
            RETURN false;
        END IF;
        EXECUTE format('GRANT SELECT ON %s TO %I', rel, (SELECT rolname FROM pg_roles WHERE oid = keeper));
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', rel);
    EXECUTE format('CREATE OR REPLACE TRIGGER bollhav_coverage_insert AFTER INSERT ON %s
                    REFERENCING NEW TABLE AS bollhav_new
                    FOR EACH STATEMENT EXECUTE FUNCTION @schema@.coverage_note_1()', rel);
    EXECUTE format('CREATE OR REPLACE TRIGGER bollhav_coverage_update AFTER UPDATE ON %s
                    REFERENCING OLD TABLE AS bollhav_old NEW TABLE AS bollhav_new
                    FOR EACH STATEMENT EXECUTE FUNCTION @schema@.coverage_note_1()', rel);
    EXECUTE format('CREATE OR REPLACE TRIGGER bollhav_coverage_delete AFTER DELETE ON %s
                    REFERENCING OLD TABLE AS bollhav_old
                    FOR EACH STATEMENT EXECUTE FUNCTION @schema@.coverage_note_1()', rel);
    EXECUTE format('CREATE OR REPLACE TRIGGER bollhav_coverage_truncate AFTER TRUNCATE ON %s
                    FOR EACH STATEMENT EXECUTE FUNCTION @schema@.coverage_note_1()', rel);
    INSERT INTO @schema@.coverage_head (state, name) VALUES (rel, rel::text)
        ON CONFLICT (state) DO UPDATE SET name = excluded.name;
    PERFORM @schema@.coverage_rebuild_1(rel);
    RETURN true;
END $$;
