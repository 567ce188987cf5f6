-- The facts that gates are decided on: any number of requests, one statement, one snapshot.
--
-- The rules themselves are one pure Python implementation for synchronous and asynchronous callers; here is only what
-- they ask the database. Every fact is an index probe or a few, whatever the length of the history. A state table whose
-- coverage is kept has a reader of its own: a function with plans that a session makes once. For any other table the same
-- facts are read from its rows.
--
-- A request:
--   asked        full name of the upstream
--   level        exists, exact, encapsulate, through, whole, or past (the asking model's own past)
--   s, e         the asking unit's window, null when it has none
--   scope        of the freshness, null for none
--   start        where the declared range starts, when that is not the declared begin

CREATE OR REPLACE FUNCTION @schema@.gate_reader_name_@digest@(table_name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '@schema@.gate_@digest@_' || left(md5(table_name), 24);

-- An applied_at as far as a client can hold it: what lies beyond its calendar stays far in the past, or in the future.
CREATE OR REPLACE FUNCTION @schema@.gate_instant_@digest@(at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN at < timestamptz '0001-01-02 00:00:00+00' THEN timestamptz '0001-01-02 00:00:00+00'
            WHEN at > timestamptz '9999-12-31 00:00:00+00' THEN timestamptz '9999-12-31 00:00:00+00' ELSE at END;

-- Make the reader of a table whose coverage is kept. It answers only as long as the library's entry points at that table
-- and the coverage is that table's; it returns nulls otherwise.
CREATE OR REPLACE FUNCTION @schema@.gate_make_reader_@digest@(table_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $make$
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION %s(
    asked text, level text, s timestamptz, e timestamptz, scope text, start timestamptz,
    OUT at timestamptz,
    OUT stateful boolean, OUT timeless boolean, OUT fixed boolean,
    OUT begins timestamptz, OUT ends text, OUT chunk text, OUT tz text,
    OUT islands timestamptz[],
    OUT row_since timestamptz, OUT row_until timestamptz,
    OUT first_since timestamptz,
    OUT row_status text, OUT row_applied_at timestamptz,
    OUT selected boolean, OUT loaded timestamptz,
    OUT reader text
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS %L', @schema@.gate_reader_name_@digest@(table_name), replace(replace(replace($body$
DECLARE
    kept regclass;
    longest interval;
    low timestamptz;            -- what is asked to be covered
    high timestamptz := e;
    edge timestamptz;
    within boolean;             -- whether anything is applied before `low`
    near timestamptz;
    far timestamptz;
    oldest timestamptz;
    newest timestamptz;
    first_0 integer;
    first_1 integer;
    first_2 integer;
    last_0 integer;
    last_1 integer;
    last_2 integer;
    a timestamptz;
    b timestamptz;
BEGIN
    SELECT statement_timestamp(), true, l.temporality = 'timeless', l.fixed_intervals, l.metadata #>> '{contract,begin}',
           l.metadata #>> '{contract,end}', l.metadata #>> '{batching,chunk}', l.metadata ->> 'tz', h.state, h.longest
      INTO at, stateful, timeless, fixed, begins, ends, chunk, tz, kept, longest
      FROM @schema@.library l, @schema@.coverage_head h
     WHERE l.full_name = asked AND quote_ident(l.state_schema) || '.' || quote_ident(l.state_table) = <name>
       AND h.state = to_regclass(<name>) AND h.name = <name>;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    reader := <reader>;
    IF level = 'encapsulate' AND NOT timeless THEN
        low := s;
        IF scope IS NOT NULL THEN
            -- the window is searched before it is ordered (OFFSET 0): in order of applied_at its rows may lie anywhere
            SELECT true, @schema@.gate_instant_@digest@(w.applied_at) INTO selected, loaded
              FROM (SELECT r.applied_at, r.until FROM <table> r
                     WHERE r.status = 'applied' AND r.since < e AND r.until > s AND r.since > s - longest
                       AND @schema@.coverage_counts_1(r.since, r.until) OFFSET 0) w
             ORDER BY CASE WHEN scope = 'head' THEN w.until END DESC,
                      CASE WHEN scope <> 'all' THEN w.applied_at END DESC NULLS LAST,
                      CASE WHEN scope = 'all' THEN w.applied_at END ASC NULLS FIRST LIMIT 1;
        END IF;
    ELSIF level = 'exists' OR (timeless AND level <> 'whole') OR (level = 'exact' AND NOT fixed) THEN
        RETURN;
    ELSIF level = 'exact' THEN
        SELECT r.status, @schema@.gate_instant_@digest@(r.applied_at) INTO row_status, row_applied_at
          FROM <table> r WHERE r.since = s AND r.until = e LIMIT 1;
        RETURN;
    ELSE
        IF level = 'whole' THEN
            high := 'infinity';
            IF timeless OR chunk IS NULL THEN
                -- one row, without a window or with one that grows with its range
                SELECT r.status, @schema@.gate_instant_@digest@(r.applied_at) INTO row_status, row_applied_at
                  FROM <table> r WHERE r.since IS NULL LIMIT 1;
                IF timeless THEN
                    RETURN;
                END IF;
            END IF;
        ELSIF level = 'past' THEN
            high := s;
        END IF;
        start := coalesce(start, begins);
        IF start IS NULL THEN
            SELECT r.since INTO first_since FROM <table> r
             WHERE @schema@.coverage_counts_1(r.since, r.until) ORDER BY r.since LIMIT 1;
            start := first_since;
        END IF;
        low := CASE level WHEN 'through' THEN least(start, s) ELSE start END;
        -- the earliest outstanding row and the last island that starts at or before `low`
        SELECT o.since, o.until, i.since, i.until, i.since < low OR i.after_another
          INTO row_since, row_until, a, b, within
          FROM (SELECT) one
          LEFT JOIN LATERAL (
              SELECT r.since, r.until FROM <table> r WHERE r.status <> 'applied' AND r.since < high
                 AND @schema@.coverage_counts_1(r.since, r.until)
               ORDER BY r.since LIMIT 1) o ON true
          LEFT JOIN LATERAL (
              SELECT c.since, c.until, EXISTS (SELECT FROM @schema@.coverage p
                                                WHERE p.state = kept AND p.since < c.since) AS after_another
                FROM @schema@.coverage c WHERE c.state = kept AND c.since <= low ORDER BY c.since DESC LIMIT 1) i ON true;
        IF low IS NULL OR low >= high THEN
            RETURN;  -- no rows, and nobody says where they would start; or nothing is asked to be covered
        END IF;
        IF scope IN ('latest', 'all') THEN
            -- Whole blocks of time, the larger the better, and the rows at the ends. Three queries, because each branch of
            -- one costs although it finds nothing: as a rule nothing is applied before the start.
            IF within IS NOT TRUE AND level = 'whole' THEN
                SELECT max(n.newest), min(n.oldest) INTO newest, oldest
                  FROM @schema@.coverage_loads n WHERE n.state = kept AND n.level = 2;
            ELSIF within IS NOT TRUE THEN
                last_0 := @schema@.coverage_block_1(high);
                SELECT max(l.newest), min(l.oldest) INTO newest, oldest
                  FROM (SELECT n.oldest, n.newest FROM @schema@.coverage_loads n
                         WHERE n.state = kept AND n.level = 2 AND n.block < last_0 >> 12
                        UNION ALL
                        SELECT n.oldest, n.newest FROM @schema@.coverage_loads n
                         WHERE n.state = kept AND n.level = 1
                           AND n.block >= (last_0 >> 12) << 6 AND n.block < last_0 >> 6
                        UNION ALL
                        SELECT n.oldest, n.newest FROM @schema@.coverage_loads n
                         WHERE n.state = kept AND n.level = 0 AND n.block >= (last_0 >> 6) << 6 AND n.block < last_0
                        UNION ALL
                        SELECT coalesce(r.applied_at, '-infinity'), r.applied_at FROM <table> r
                         WHERE r.status = 'applied' AND @schema@.coverage_counts_1(r.since, r.until)
                           AND r.since >= @schema@.coverage_block_start_1(last_0) AND r.since < high) l;
            ELSE
                first_0 := @schema@.coverage_block_1(low) + 1;
                near := @schema@.coverage_block_start_1(first_0);
                last_0 := 1 << 24;
                IF high < 'infinity' THEN
                    last_0 := @schema@.coverage_block_1(high);
                    far := @schema@.coverage_block_start_1(last_0);
                END IF;
                IF first_0 >= last_0 THEN
                    last_0 := first_0;
                    near := high;
                    far := NULL;
                END IF;
                last_1 := last_0 >> 6;
                last_2 := last_1 >> 6;
                first_1 := least((first_0 + 63) >> 6, last_1);
                first_2 := least((first_1 + 63) >> 6, last_2);
                SELECT max(l.newest), min(l.oldest) INTO newest, oldest
                  FROM (SELECT coalesce(r.applied_at, '-infinity') AS oldest, r.applied_at AS newest FROM <table> r
                         WHERE r.status = 'applied' AND @schema@.coverage_counts_1(r.since, r.until)
                           AND r.since > low - longest AND r.since < near AND r.until > low
                        UNION ALL
                        SELECT n.oldest, n.newest FROM @schema@.coverage_loads n
                         WHERE n.state = kept AND n.level = 0
                           AND n.block >= first_0 AND n.block < greatest(first_1 << 6, first_0)
                        UNION ALL
                        SELECT n.oldest, n.newest FROM @schema@.coverage_loads n
                         WHERE n.state = kept AND n.level = 1
                           AND n.block >= first_1 AND n.block < greatest(first_2 << 6, first_1)
                        UNION ALL
                        SELECT n.oldest, n.newest FROM @schema@.coverage_loads n
                         WHERE n.state = kept AND n.level = 2 AND n.block >= first_2 AND n.block < last_2
                        UNION ALL
                        SELECT n.oldest, n.newest FROM @schema@.coverage_loads n
                         WHERE n.state = kept AND n.level = 1
                           AND n.block >= greatest(first_1, last_2 << 6) AND n.block < last_1
                        UNION ALL
                        SELECT n.oldest, n.newest FROM @schema@.coverage_loads n
                         WHERE n.state = kept AND n.level = 0
                           AND n.block >= greatest(first_0, last_1 << 6) AND n.block < last_0
                        UNION ALL
                        SELECT coalesce(r.applied_at, '-infinity'), r.applied_at FROM <table> r
                         WHERE r.status = 'applied' AND @schema@.coverage_counts_1(r.since, r.until)
                           AND r.since >= far AND r.since < high) l;
            END IF;
            selected := oldest IS NOT NULL;
            loaded := @schema@.gate_instant_@digest@(
                CASE scope WHEN 'latest' THEN newest ELSE nullif(oldest, '-infinity') END);
        ELSIF scope = 'head' THEN
            -- the row that ends last reaches the end of the last island, or the window's end
            SELECT least(c.until, high) INTO edge FROM @schema@.coverage c
             WHERE c.state = kept AND c.since < high ORDER BY c.since DESC LIMIT 1;
            SELECT true, @schema@.gate_instant_@digest@(w.applied_at) INTO selected, loaded
              FROM (SELECT r.applied_at, r.until FROM <table> r
                     WHERE r.status = 'applied' AND @schema@.coverage_counts_1(r.since, r.until)
                       AND r.since < edge AND r.since >= edge - longest AND r.until > low
                    OFFSET 0) w
             ORDER BY w.until DESC, w.applied_at DESC NULLS LAST LIMIT 1;
        END IF;
    END IF;
    IF level = 'encapsulate' THEN
        SELECT c.since, c.until INTO a, b FROM @schema@.coverage c
         WHERE c.state = kept AND c.since <= low ORDER BY c.since DESC LIMIT 1;
    END IF;
    IF b > low THEN
        islands := ARRAY[a, b];
        IF b >= high OR (level = 'whole' AND b >= ends::timestamptz) THEN
            RETURN;  -- all of it is covered
        END IF;
    END IF;
    islands := islands || ARRAY(
        SELECT unnest(ARRAY[i.since, i.until])
          FROM (SELECT c.since, c.until FROM @schema@.coverage c
                 WHERE c.state = kept AND c.since > low ORDER BY c.since LIMIT 2) i);
END $body$, '<name>', quote_literal(table_name)), '<table>', table_name),
        '<reader>', quote_literal(@schema@.gate_reader_name_@digest@(table_name))));
END $make$;

-- At most three islands that end after `low`, of rows that start before `high`, read from the rows.
CREATE OR REPLACE FUNCTION @schema@.gate_islands_@digest@(rel regclass, low timestamptz, high timestamptz)
RETURNS timestamptz[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    nearest timestamptz;
    islands tstzmultirange;
BEGIN
    -- Rows of a grid do not overlap, so the row that holds `low` is the last one that starts at or before it ...
    EXECUTE format('SELECT since FROM %s WHERE since <= $1 ORDER BY since DESC LIMIT 1', rel) INTO nearest USING low;
    EXECUTE format('SELECT range_agg(tstzrange(since, until)) FROM %s
                     WHERE status = ''applied'' AND since >= $3 AND since < $2 AND until > $1
                       AND @schema@.coverage_counts_1(since, until)', rel)
       INTO islands USING low, high, coalesce(nearest, low);
    -- ... and where they do, one that started earlier may still reach into the window.
    IF nearest IS NOT NULL AND NOT coalesce(islands @> tstzrange(low, high), false) THEN
        EXECUTE format('SELECT range_agg(tstzrange(since, until)) FROM %s
                         WHERE status = ''applied'' AND since < $2 AND until > $1
                           AND @schema@.coverage_counts_1(since, until)', rel) INTO islands USING low, high;
    END IF;
    RETURN ARRAY(SELECT unnest(ARRAY[lower(i.r), upper(i.r)])
                   FROM (SELECT r FROM unnest(islands) r ORDER BY lower(r) LIMIT 3) i);
END $$;

-- The facts of one request, whatever the upstream: what a reader answers where there is one, else read from the rows.
CREATE OR REPLACE FUNCTION @schema@.gate_facts_@digest@(
    asked text, level text, s timestamptz, e timestamptz, scope text, start timestamptz,
    OUT at timestamptz,             -- the database's clock; null when the upstream is not registered
    OUT stateful boolean, OUT timeless boolean, OUT fixed boolean,
    OUT begins timestamptz, OUT ends text, OUT chunk text, OUT tz text,
    OUT islands timestamptz[],      -- start and end of the first few that end after the start of what is asked
    OUT row_since timestamptz, OUT row_until timestamptz,   -- the earliest outstanding row that matters
    OUT first_since timestamptz,    -- of all rows, where no begin is declared
    OUT row_status text, OUT row_applied_at timestamptz,    -- the row that is exactly the window, or has none
    OUT selected boolean, OUT loaded timestamptz,           -- the row that the freshness is judged by
    OUT reader text                 -- the function that answers for this upstream alone, when there is one
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    table_name text;
    rel regclass;
    low timestamptz;
    high timestamptz := e;
BEGIN
    SELECT statement_timestamp(), l.temporality = 'timeless', l.fixed_intervals, l.metadata #>> '{contract,begin}',
           l.metadata #>> '{contract,end}', l.metadata #>> '{batching,chunk}', l.metadata ->> 'tz',
           quote_ident(l.state_schema) || '.' || quote_ident(l.state_table)
      INTO at, timeless, fixed, begins, ends, chunk, tz, table_name
      FROM @schema@.library l WHERE l.full_name = asked;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    stateful := table_name IS NOT NULL;
    rel := to_regclass(table_name);
    IF rel IS NULL THEN
        RETURN;  -- no state; or its table is gone, and so are its rows
    END IF;
    SELECT @schema@.gate_reader_name_@digest@(h.name) INTO reader
      FROM @schema@.coverage_head h WHERE h.state = rel AND h.name = table_name;
    IF to_regproc(reader) IS NOT NULL THEN
        EXECUTE 'SELECT * FROM ' || reader || '($1, $2, $3, $4, $5, $6)'
           INTO at, stateful, timeless, fixed, begins, ends, chunk, tz, islands, row_since, row_until, first_since,
                row_status, row_applied_at, selected, loaded, reader
          USING asked, level, s, e, scope, start;
        RETURN;
    END IF;
    reader := NULL;
    IF level = 'exists' OR (timeless AND level <> 'whole') OR (level = 'exact' AND NOT fixed) THEN
        RETURN;
    ELSIF level = 'exact' THEN
        EXECUTE format('SELECT status, @schema@.gate_instant_@digest@(applied_at) FROM %s
                         WHERE since = $1 AND until = $2 LIMIT 1', rel)
           INTO row_status, row_applied_at USING s, e;
        RETURN;
    ELSIF level = 'encapsulate' THEN
        low := s;
    ELSE
        IF level = 'whole' THEN
            high := 'infinity';
            IF timeless OR chunk IS NULL THEN
                EXECUTE format('SELECT status, @schema@.gate_instant_@digest@(applied_at) FROM %s
                                 WHERE since IS NULL LIMIT 1', rel)
                   INTO row_status, row_applied_at;
                IF timeless THEN
                    RETURN;
                END IF;
            END IF;
        ELSIF level = 'past' THEN
            high := s;
        END IF;
        EXECUTE format('SELECT since, until FROM %s WHERE status <> ''applied'' AND since < $1
                           AND @schema@.coverage_counts_1(since, until) ORDER BY since LIMIT 1', rel)
           INTO row_since, row_until USING high;
        start := coalesce(start, begins);
        IF start IS NULL THEN
            EXECUTE format('SELECT since FROM %s WHERE @schema@.coverage_counts_1(since, until)
                             ORDER BY since LIMIT 1', rel) INTO first_since;
            start := first_since;
        END IF;
        low := CASE level WHEN 'through' THEN least(start, s) ELSE start END;
        IF low IS NULL OR low >= high THEN
            RETURN;
        END IF;
    END IF;
    IF scope IS NOT NULL THEN
        EXECUTE format('SELECT true, @schema@.gate_instant_@digest@(applied_at) FROM %s
                         WHERE status = ''applied'' AND since < $2 AND until > $1
                           AND @schema@.coverage_counts_1(since, until) ORDER BY %s LIMIT 1',
                       rel, CASE scope WHEN 'latest' THEN 'applied_at DESC NULLS LAST'
                                       WHEN 'all' THEN 'applied_at NULLS FIRST'
                                       ELSE 'until DESC, applied_at DESC NULLS LAST' END)
           INTO selected, loaded USING low, high;
    END IF;
    islands := @schema@.gate_islands_@digest@(rel, low, high);
END $$;

-- Tables whose coverage was kept before this version came have no reader of this version yet.
DO $$
DECLARE
    table_name text;
BEGIN
    FOR table_name IN SELECT h.name FROM @schema@.coverage_head h WHERE h.state = to_regclass(h.name) LOOP
        PERFORM @schema@.gate_make_reader_@digest@(table_name);
    END LOOP;
END $$;
