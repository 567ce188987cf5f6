-- The facts that gates are decided on: any number of requests, one statement, one snapshot.
--
-- The rules themselves are one pure Python implementation for synchronous and asynchronous callers; here is only what
-- they ask the database. Every fact is a handful of index probes, whatever the length of the history. Where a state
-- table's coverage is not kept (its triggers could not be installed), the same facts are read from its rows.

-- At most three islands that end after `lower_bound`, of rows that start before `upper_bound`: a window, a prefix and
-- the whole range are all decided on the first gap, which lies at the first island's edge or between the first two.
CREATE OR REPLACE FUNCTION @schema@.gate_islands_@digest@(
    rel regclass, kept boolean, lower_bound timestamptz, upper_bound timestamptz
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    islands tstzmultirange;
    nearest timestamptz;
    found jsonb;
BEGIN
    IF kept THEN
        SELECT jsonb_agg(jsonb_build_array(i.since, i.until) ORDER BY i.since) INTO found
          FROM ((SELECT c.since, c.until FROM @schema@.coverage c
                  WHERE c.state = rel AND c.since <= lower_bound ORDER BY c.since DESC LIMIT 1)
                UNION ALL
                (SELECT c.since, c.until FROM @schema@.coverage c
                  WHERE c.state = rel AND c.since > lower_bound ORDER BY c.since LIMIT 2)) i
         WHERE i.until > lower_bound;
        RETURN found;
    END IF;
    -- Rows of a grid do not overlap, so the row that holds the bound is the last one that starts at or before it ...
    EXECUTE format('SELECT since FROM %s WHERE since <= $1 ORDER BY since DESC LIMIT 1', rel)
       INTO nearest USING lower_bound;
    EXECUTE format('SELECT range_agg(tstzrange(since, until)) FROM %s
                     WHERE status = ''applied'' AND since >= $3 AND since < $2 AND until > $1
                       AND @schema@.coverage_counts_1(since, until)', rel)
       INTO islands USING lower_bound, upper_bound, coalesce(nearest, lower_bound);
    -- ... and where they do, one that started earlier may still reach into the window.
    IF nearest IS NOT NULL AND NOT coalesce(islands @> tstzrange(lower_bound, upper_bound), false) THEN
        EXECUTE format('SELECT range_agg(tstzrange(since, until)) FROM %s
                         WHERE status = ''applied'' AND since < $2 AND until > $1
                           AND @schema@.coverage_counts_1(since, until)', rel)
           INTO islands USING lower_bound, upper_bound;
    END IF;
    SELECT jsonb_agg(jsonb_build_array(lower(r), upper(r)) ORDER BY lower(r)) INTO found
      FROM (SELECT r FROM unnest(islands) r ORDER BY lower(r) LIMIT 3) i;
    RETURN found;
END $$;

-- applied_at of the one row that a freshness is judged by: [applied_at], [null] when that row has none, null when no
-- row is selected. The rows are those that overlap [lower_bound, upper_bound); `narrow` says that this is a window and not
-- a prefix or all. `longest` is at least the length of every applied row, null where that is not known.
CREATE OR REPLACE FUNCTION @schema@.gate_applied_at_@digest@(
    rel regclass, scope text, narrow boolean, lower_bound timestamptz, upper_bound timestamptz, longest interval
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    chosen jsonb;
    rows text := 'since < $2 AND until > $1';
BEGIN
    IF longest IS NOT NULL AND narrow THEN
        rows := rows || ' AND since > $1 - $3';
    ELSIF longest IS NOT NULL AND scope = 'head' THEN
        -- the row that ends last reaches the end of the last island, or my window's end
        SELECT least(c.until, upper_bound) INTO upper_bound FROM @schema@.coverage c
         WHERE c.state = rel AND c.since < upper_bound ORDER BY c.since DESC LIMIT 1;
        rows := rows || ' AND since >= $2 - $3';
    END IF;
    EXECUTE format('SELECT jsonb_build_array(applied_at) FROM %s WHERE status = ''applied'' AND %s ORDER BY %s LIMIT 1',
                   rel, rows,
                   CASE scope WHEN 'latest' THEN 'applied_at DESC NULLS LAST'
                              WHEN 'all' THEN 'applied_at ASC NULLS FIRST'
                              ELSE 'until DESC, applied_at DESC NULLS LAST' END)
       INTO chosen USING coalesce(lower_bound, '-infinity'), upper_bound, longest;
    RETURN chosen;
END $$;

-- One row of facts a request, in their order. A request is a JSON object:
--   u  full name of the upstream      l  level: exists, exact, encapsulate, through, whole, or past (my own past)
--   s, e  my window                   f  scope of the freshness
--   b  where the declared range starts, when that is not the declared begin
CREATE OR REPLACE FUNCTION @schema@.gate_facts_@digest@(requests jsonb) RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET "TimeZone" = 'UTC'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    request jsonb;
    name text;          -- of the upstream that the next variables describe
    entry jsonb;        -- what the library says of it
    timeless boolean;
    rel regclass;
    kept boolean;
    longest interval;
    begins timestamptz;
    first_since timestamptz;
    windowless jsonb;
    level text;
    facts jsonb;
    lower_bound timestamptz;
    upper_bound timestamptz;
    answer jsonb;
BEGIN
    FOR request IN SELECT value FROM jsonb_array_elements(requests) LOOP
        IF name IS DISTINCT FROM request->>'u' THEN
            name := request->>'u';
            rel := NULL; kept := false; longest := NULL; entry := NULL;
            SELECT to_jsonb(l) INTO entry FROM @schema@.library l WHERE l.full_name = name;
            IF entry IS NOT NULL THEN
                timeless := coalesce(entry->>'temporality', 'temporal') = 'timeless';
                rel := to_regclass(format('%I.%I', entry->>'state_schema', entry->>'state_table'));
                -- a begin that cannot be read is one that is not declared
                begins := CASE
                    WHEN entry#>>'{metadata,contract,begin}'
                         ~ '^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$'
                    THEN (entry#>>'{metadata,contract,begin}')::timestamptz END;
                entry := jsonb_build_object(
                    'now', statement_timestamp(),
                    'stateful', entry->>'state_table' IS NOT NULL,
                    'timeless', timeless,
                    'fixed', coalesce((entry->>'fixed_intervals')::boolean, true),
                    'begin', begins,
                    'end', entry#>'{metadata,contract,end}',
                    'chunk', entry#>'{metadata,batching,chunk}',
                    'tz', entry#>'{metadata,tz}');
            END IF;
            IF rel IS NOT NULL THEN
                SELECT h.longest, @schema@.coverage_kept_1(rel) INTO longest, kept
                  FROM @schema@.coverage_head h WHERE h.state = rel;
                kept := coalesce(kept, false);
                IF NOT kept THEN longest := NULL; END IF;
            END IF;
        END IF;
        facts := entry;
        level := request->>'l';
        lower_bound := request->>'s';
        upper_bound := coalesce((request->>'e')::timestamptz, 'infinity');
        IF rel IS NULL OR level = 'exists' OR (timeless AND level <> 'whole') THEN
            NULL;
        ELSIF timeless THEN
            EXECUTE format('SELECT jsonb_build_array(status, applied_at) FROM %s WHERE since IS NULL LIMIT 1', rel)
               INTO windowless;
            facts := facts || jsonb_build_object('windowless', windowless);
        ELSIF level = 'exact' THEN
            EXECUTE format('SELECT jsonb_build_array(status, applied_at) FROM %s WHERE since = $1 AND until = $2 LIMIT 1',
                           rel) INTO answer USING lower_bound, upper_bound;
            facts := facts || jsonb_build_object('row', answer);
        ELSIF level = 'encapsulate' THEN
            facts := facts || jsonb_build_object(
                'islands', @schema@.gate_islands_@digest@(rel, kept, lower_bound, upper_bound));
            IF request ? 'f' THEN
                facts := facts || jsonb_build_object('applied_at', @schema@.gate_applied_at_@digest@(
                    rel, request->>'f', true, lower_bound, upper_bound, longest));
            END IF;
        ELSE
            IF level = 'past' THEN
                upper_bound := lower_bound;
            ELSIF level = 'whole' THEN
                upper_bound := 'infinity';
            END IF;
            -- the earliest row matters only where no begin is declared, a row without a window only where no chunk is
            EXECUTE format(
                'SELECT (SELECT jsonb_build_array(since, until) FROM %1$s
                          WHERE status <> ''applied'' AND since < $1 ORDER BY since LIMIT 1), %2$s, %3$s', rel,
                CASE WHEN begins IS NULL
                     THEN format('(SELECT since FROM %s WHERE since IS NOT NULL ORDER BY since LIMIT 1)', rel)
                     ELSE 'null' END,
                CASE WHEN level = 'whole' AND jsonb_typeof(entry->'chunk') IS DISTINCT FROM 'string'
                     THEN format('(SELECT jsonb_build_array(status, applied_at) FROM %s
                                   WHERE since IS NULL LIMIT 1)', rel)
                     ELSE 'null' END)
               INTO answer, first_since, windowless USING upper_bound;
            first_since := coalesce((request->>'b')::timestamptz, begins, first_since);
            lower_bound := CASE level WHEN 'through' THEN least(first_since, lower_bound) ELSE first_since END;
            facts := facts || jsonb_build_object(
                'outstanding', answer, 'first', first_since, 'windowless', windowless,
                'islands', @schema@.gate_islands_@digest@(rel, kept, lower_bound, upper_bound));
            IF request ? 'f' THEN
                facts := facts || jsonb_build_object('applied_at', @schema@.gate_applied_at_@digest@(
                    rel, request->>'f', false, lower_bound, upper_bound, longest));
            END IF;
        END IF;
        RETURN NEXT coalesce(facts, '{}');
    END LOOP;
END $$;

-- The row of a watched unit: its own window, the row without one, or the table's single row, whose window grows.
CREATE OR REPLACE FUNCTION @schema@.gate_unit_@digest@(watch jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN watch ? 's' THEN 'since = $1 AND until = $2'
                WHEN (watch->>'single')::boolean
                THEN format('id = (SELECT id FROM %I.%I ORDER BY since NULLS LAST LIMIT 1)', watch->>'schema', watch->>'table')
                ELSE 'since IS NULL' END
$$;

-- [status, blocked_reason] of each watched unit, null for one that has no row.
CREATE OR REPLACE FUNCTION @schema@.gate_rows_@digest@(watches jsonb) RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    watch jsonb;
    answer jsonb;
BEGIN
    FOR watch IN SELECT value FROM jsonb_array_elements(watches) LOOP
        EXECUTE format('SELECT jsonb_build_array(status, blocked_reason) FROM %I.%I WHERE ', watch->>'schema', watch->>'table')
             || @schema@.gate_unit_@digest@(watch)
           INTO answer USING (watch->>'s')::timestamptz, (watch->>'e')::timestamptz;
        RETURN NEXT answer;
    END LOOP;
END $$;

-- Make watched units that nobody works on pending, or blocked with a reason (r); returns how many changed. The units of
-- several tables are taken in one order, so that two callers never wait for each other.
CREATE OR REPLACE FUNCTION @schema@.gate_flip_@digest@(watches jsonb) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    watch jsonb;
    changed bigint := 0;
    n bigint;
BEGIN
    FOR watch IN
        SELECT value FROM jsonb_array_elements(watches)
         ORDER BY value->>'schema', value->>'table', (value->>'s')::timestamptz
    LOOP
        EXECUTE format('UPDATE %I.%I SET status = $3, blocked_reason = $4 WHERE status IN (''pending'', ''blocked'') AND ',
                       watch->>'schema', watch->>'table')
             || @schema@.gate_unit_@digest@(watch)
          USING (watch->>'s')::timestamptz, (watch->>'e')::timestamptz,
                CASE WHEN watch->>'r' IS NULL THEN 'pending' ELSE 'blocked' END, watch->>'r';
        GET DIAGNOSTICS n = ROW_COUNT;
        changed := changed + n;
    END LOOP;
    RETURN changed;
END $$;
