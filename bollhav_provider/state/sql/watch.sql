-- The rows of units that wait for their gates: how they stand, and how they follow what the gates say.

-- The row of a watched unit: its own window, the row without one, or the table's single row, whose window grows.
CREATE OR REPLACE FUNCTION @schema@.watch_unit_@digest@(watch jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN watch ? 's' THEN 'since = $1 AND until = $2'
                WHEN (watch->>'single')::boolean
                THEN format('id = (SELECT id FROM %I.%I ORDER BY since NULLS LAST LIMIT 1)', watch->>'schema', watch->>'table')
                ELSE 'since IS NULL' END
$$;

-- [status, blocked_reason] of each watched unit, null for one that has no row.
CREATE OR REPLACE FUNCTION @schema@.watch_rows_@digest@(watches jsonb) RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    watch jsonb;
    answer jsonb;
BEGIN
    FOR watch IN SELECT value FROM jsonb_array_elements(watches) LOOP
        EXECUTE format('SELECT jsonb_build_array(status, blocked_reason) FROM %I.%I WHERE ', watch->>'schema', watch->>'table')
             || @schema@.watch_unit_@digest@(watch)
           INTO answer USING (watch->>'s')::timestamptz, (watch->>'e')::timestamptz;
        RETURN NEXT answer;
    END LOOP;
END $$;

-- Make watched units that nobody works on pending, or blocked with a reason (r); returns how many changed. The units of
-- several tables are taken in one order, so that two callers never wait for each other.
CREATE OR REPLACE FUNCTION @schema@.watch_flip_@digest@(watches jsonb) RETURNS bigint
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
             || @schema@.watch_unit_@digest@(watch)
          USING (watch->>'s')::timestamptz, (watch->>'e')::timestamptz,
                CASE WHEN watch->>'r' IS NULL THEN 'pending' ELSE 'blocked' END, watch->>'r';
        GET DIAGNOSTICS n = ROW_COUNT;
        changed := changed + n;
    END LOOP;
    RETURN changed;
END $$;
