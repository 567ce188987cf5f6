-- Coverage from outside: what the rows say, repair, and installing it on a state table. Comes after coverage.sql.

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

-- The ages of all blocks as the rows say.
CREATE OR REPLACE FUNCTION @schema@.coverage_true_loads_1(rel regclass)
RETURNS TABLE (level smallint, block integer, oldest timestamptz, newest timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'WITH lowest AS (
            SELECT @schema@.coverage_block_1(since) AS block, min(coalesce(applied_at, ''-infinity'')) AS oldest,
                   max(applied_at) AS newest
              FROM %s WHERE status = ''applied'' AND @schema@.coverage_counts_1(since, until) GROUP BY 1)
         SELECT w.level::smallint, n.block >> (6 * w.level), min(n.oldest), max(n.newest)
           FROM lowest n, (VALUES (0), (1), (2)) w(level) GROUP BY 1, 2', rel);
END $$;

-- Replace what is kept of a table by what the rows say. Returns whether they differed. Writers that have not committed
-- yet fold on top of the result.
CREATE OR REPLACE FUNCTION @schema@.coverage_rebuild_1(rel regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    truth tstzmultirange;
    kept tstzmultirange;
    bound interval;
    n bigint;
    differed boolean := false;
BEGIN
    UPDATE @schema@.coverage_head SET version = version + 1 WHERE state = rel;
    EXECUTE format('SELECT max(@schema@.coverage_seconds_1(since, until)) FROM %s
                     WHERE status = ''applied'' AND @schema@.coverage_counts_1(since, until)', rel) INTO bound;
    UPDATE @schema@.coverage_head SET longest = coalesce(bound, '0')
     WHERE state = rel AND longest <> coalesce(bound, '0');
    truth := @schema@.coverage_truth_1(rel);
    SELECT coalesce(range_agg(tstzrange(since, until)), '{}') INTO kept FROM @schema@.coverage WHERE state = rel;
    IF truth <> kept THEN
        DELETE FROM @schema@.coverage WHERE state = rel;
        INSERT INTO @schema@.coverage (state, since, until) SELECT rel, lower(u), upper(u) FROM unnest(truth) u;
        differed := true;
    END IF;
    WITH truth AS MATERIALIZED (SELECT * FROM @schema@.coverage_true_loads_1(rel)),
    gone AS (
        DELETE FROM @schema@.coverage_loads l
         WHERE l.state = rel AND (l.level, l.block) NOT IN (SELECT t.level, t.block FROM truth t) RETURNING 1
    ), put AS (
        INSERT INTO @schema@.coverage_loads AS l (state, level, block, oldest, newest)
        SELECT rel, t.level, t.block, t.oldest, t.newest FROM truth t
            ON CONFLICT (state, level, block) DO UPDATE SET oldest = excluded.oldest, newest = excluded.newest
         WHERE (l.oldest, l.newest) IS DISTINCT FROM (excluded.oldest, excluded.newest) RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM put) INTO n;
    RETURN differed OR n > 0;
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
    IF NOT (has_table_privilege(rel, 'TRIGGER') AND has_schema_privilege(@schema_literal@, 'CREATE')) OR EXISTS (
        SELECT FROM unnest(ARRAY['coverage', 'coverage_loads', 'coverage_head']) t(name),
                    unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p(privilege)
         WHERE NOT has_table_privilege('@schema@.' || t.name, p.privilege))
    THEN
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
