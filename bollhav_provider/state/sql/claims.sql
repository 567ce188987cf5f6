-- One unit's life on the server: claim, renew, finish. Each is one round trip and one transaction of its own, except
-- that an apply is called inside the transaction that wrote the rows.
--
-- Time is always clock_timestamp(): now() is the start of a transaction that may have begun long before.
-- Names carry the digest of this file, so that another version of the package keeps its own.

-- An instant as Python's isoformat() writes it in UTC: the form that advisory lock keys are made of.
CREATE OR REPLACE FUNCTION @schema@.iso_@digest@(at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
      || CASE WHEN extract(microseconds FROM at)::bigint % 1000000 = 0 THEN ''
              ELSE to_char(at AT TIME ZONE 'UTC', '.US') END || '+00:00'
$$;

-- The advisory lock key of a unit, shared with other implementations.
CREATE OR REPLACE FUNCTION @schema@.unit_key_@digest@(
  p_full_name text, p_since timestamptz, p_until timestamptz, p_windowless boolean)
RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_windowless OR p_since IS NULL OR p_until IS NULL THEN p_full_name || '|oneshot'
              ELSE p_full_name || '|' || @schema@.iso_@digest@(p_since) || '|' || @schema@.iso_@digest@(p_until) END
$$;

-- Whether somebody works on a row that says running: its lease lives, or a session holds its advisory lock.
-- The locks are only looked at, never taken: a look must not get into anybody's way.
CREATE OR REPLACE FUNCTION @schema@.in_work_@digest@(
  p_lease_until timestamptz, p_full_name text, p_since timestamptz, p_until timestamptz, p_windowless boolean)
RETURNS boolean LANGUAGE plpgsql VOLATILE COST 1000
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  k bigint;
BEGIN
  IF p_lease_until > clock_timestamp() THEN
    RETURN true;
  END IF;
  k := hashtext(@schema@.unit_key_@digest@(p_full_name, p_since, p_until, p_windowless));
  RETURN EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
                    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                    AND (l.classid::bigint << 32) | l.objid::bigint = k AND l.pid <> pg_backend_pid());
END $$;

-- The advisory lock of a unit, given back at the end of this transaction. Unlocking at once would let another
-- implementation in before our commit is visible: the lock is first taken a second time by the transaction.
CREATE OR REPLACE FUNCTION @schema@.hand_back_lock_@digest@(p_lock_pid integer, p_key text, p_model_key text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_lock_pid IS DISTINCT FROM pg_backend_pid() THEN
    RETURN;    -- taken by another session (or by none): it ends with that session, or by its own unlock
  END IF;
  IF p_key IS NOT NULL AND pg_try_advisory_xact_lock(hashtext(p_key)) THEN
    PERFORM pg_advisory_unlock(hashtext(p_key));
  END IF;
  IF p_model_key IS NOT NULL AND pg_try_advisory_xact_lock_shared(hashtext(p_model_key)) THEN
    PERFORM pg_advisory_unlock_shared(hashtext(p_model_key));
  END IF;
END $$;

-- Take the claim on one unit.
--   p_key         the unit's advisory lock key, shared with other implementations
--   p_model_key   the model's key when it allows no concurrent runs, else NULL
--   p_client_pid  the server process that the client believes it talks to; a pooler makes it another one
--   p_locks       auto | on | off
--   p_shape       grid | flexible | single (one row that grows with its range)
--   p_over        an owner that the caller knows to be over: its lease is not waited for when the session that held
--                 the unit's lock for it is gone as well. Its attempt is fenced like that of any other that was taken over
-- outcome: claimed, or why not: locked busy applied missing overlap model_locked.
-- holder_*: who stands in the way; gone: its claim came with a session lock, and that session is over.
CREATE OR REPLACE FUNCTION @schema@.claim_@digest@(
  p_table text, p_full_name text, p_temporality text, p_key text, p_model_key text, p_shape text,
  p_since timestamptz, p_until timestamptz,
  p_owner text, p_lease interval, p_run_id uuid, p_who text, p_dag_id text, p_airflow_run_id text, p_task_id text,
  p_try_number integer, p_client_pid integer, p_locks text, p_over text)
RETURNS TABLE (outcome text, id bigint, attempt bigint, lease_until timestamptz, lock_pid integer, detail text,
  holder_owner text, holder_run uuid, holder_task text, holder_try integer, gone boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rel text := format('%I.%I', @schema_literal@, p_table);
  per_session boolean := p_locks = 'on' OR (p_locks = 'auto' AND p_client_pid = pg_backend_pid());
  look text := format(
      'SELECT s.id, s.status, s.since, s.until, s.lease_until, s.owner, s.lock_pid, s.run_id, s.task_id, s.try_number '
      'FROM %s s WHERE %s', rel,
      CASE WHEN p_shape = 'single' THEN '@schema@.coverage_counts_1(s.since, s.until) '
                                         'ORDER BY s.since, s.until DESC LIMIT 1'
           WHEN p_since IS NULL THEN 's.since IS NULL' ELSE 's.since = $1 AND s.until = $2' END);
  r record;
  other record;
  model_locked boolean := false;
BEGIN
  -- A crash of the server may forget a claim: its worker's session is gone then, and whoever claims the unit again has
  -- another owner. So nobody waits for the disk here.
  PERFORM set_config('synchronous_commit', 'off', true);
  gone := false;
  IF per_session THEN
    IF NOT pg_try_advisory_lock(hashtext(p_key)) THEN
      outcome := 'locked';
    END IF;
  ELSIF NOT pg_try_advisory_xact_lock(hashtext(p_key)) THEN
    outcome := 'locked';
  END IF;
  IF outcome = 'locked' THEN
    EXECUTE look INTO r USING p_since, p_until;
    detail := r.status;
    IF r.status = 'running' THEN
      lease_until := r.lease_until;
      holder_owner := r.owner; holder_run := r.run_id; holder_task := r.task_id; holder_try := r.try_number;
    END IF;
    RETURN NEXT;
    RETURN;
  END IF;

  BEGIN    -- a failure in here must not leave the session's lock behind
    IF p_shape <> 'grid' THEN
      -- units of such a model may overlap: their claims are taken one after another
      PERFORM pg_advisory_xact_lock(@lock_class@, hashtext(p_table));
    END IF;
    EXECUTE look || ' FOR UPDATE' INTO r USING p_since, p_until;

    IF r.id IS NULL THEN
      outcome := 'missing';
    ELSIF r.status = 'applied' THEN
      outcome := 'applied';
    ELSIF r.status = 'running' AND r.lease_until > clock_timestamp() THEN
      gone := r.lock_pid <> pg_backend_pid();    -- the lock is ours now; without one (NULL) the lease alone speaks
      IF gone IS NOT TRUE OR r.owner IS DISTINCT FROM p_over THEN
        outcome := 'busy';
        detail := r.owner;
        lease_until := r.lease_until;
        holder_owner := r.owner; holder_run := r.run_id; holder_task := r.task_id; holder_try := r.try_number;
      END IF;
    END IF;

    IF outcome IS NULL AND p_shape = 'flexible' THEN
      FOR other IN EXECUTE format(
          'SELECT s.since, s.until, s.lease_until, s.owner, s.lock_pid, s.run_id, s.task_id, s.try_number FROM %s s '
          'WHERE s.status = ''running'' AND s.since < $2 AND s.until > $1 AND s.id <> $3 ORDER BY s.since', rel)
          USING p_since, p_until, r.id LOOP
        IF @schema@.in_work_@digest@(other.lease_until, p_full_name, other.since, other.until, false) THEN
          outcome := 'overlap';
          detail := format('[%s, %s) %s', @schema@.iso_@digest@(other.since), @schema@.iso_@digest@(other.until), other.owner);
          lease_until := other.lease_until;
          holder_owner := other.owner; holder_run := other.run_id;
          holder_task := other.task_id; holder_try := other.try_number;
          gone := other.lock_pid <> pg_backend_pid()
              AND NOT @schema@.in_work_@digest@(NULL, p_full_name, other.since, other.until, false);
          EXIT;
        END IF;
      END LOOP;
    END IF;

    IF outcome IS NULL AND p_model_key IS NOT NULL THEN
      -- shared among runs of ours, which the table tells apart; exclusive for other implementations
      IF per_session THEN
        model_locked := pg_try_advisory_lock_shared(hashtext(p_model_key));
      END IF;
      IF model_locked OR (NOT per_session AND pg_try_advisory_xact_lock_shared(hashtext(p_model_key))) THEN
        INSERT INTO @schema@.model_locks AS l (state_table, run_id, owner, lease_until)
          VALUES (p_table, p_run_id, p_owner, clock_timestamp() + p_lease)
          ON CONFLICT (state_table) DO UPDATE
            SET run_id = excluded.run_id, owner = excluded.owner,
                lease_until = greatest(excluded.lease_until, CASE WHEN l.run_id = excluded.run_id THEN l.lease_until END)
            WHERE l.run_id = excluded.run_id OR l.lease_until <= clock_timestamp();
        IF NOT FOUND THEN
          outcome := 'model_locked';
          SELECT format('run %s (%s) until %s', l.run_id, l.owner, @schema@.iso_@digest@(l.lease_until)) INTO detail
            FROM @schema@.model_locks l WHERE l.state_table = p_table;
        END IF;
      ELSE
        outcome := 'model_locked';
        detail := 'a session of another implementation';
      END IF;
    END IF;

    IF outcome IS NULL THEN
      EXECUTE format(
          'UPDATE %s s SET status = ''running'', attempt = s.attempt + 1, owner = $2, '
          '  lease_until = clock_timestamp() + $3, started_at = clock_timestamp(), run_id = $4, who = $5, dag_id = $6, '
          '  airflow_run_id = $7, task_id = $8, try_number = $9, blocked_reason = NULL, applied_at = NULL, '
          '  duration = NULL, rows_in = NULL, rows_written = NULL, rows_changed = NULL, reason = NULL, '
          '  marked_by = NULL, details = NULL, temporality = $10, lock_pid = $11 '
          'WHERE s.id = $1 RETURNING s.id, s.attempt, s.lease_until', rel)
        INTO id, attempt, lease_until
        USING r.id, p_owner, p_lease, p_run_id, p_who, p_dag_id, p_airflow_run_id, p_task_id, p_try_number,
              p_temporality, CASE WHEN per_session THEN pg_backend_pid() END;
      outcome := 'claimed';
    END IF;
  EXCEPTION WHEN OTHERS THEN
    IF per_session THEN
      PERFORM pg_advisory_unlock(hashtext(p_key));
      IF model_locked THEN
        PERFORM pg_advisory_unlock_shared(hashtext(p_model_key));
      END IF;
    END IF;
    RAISE;
  END;

  IF per_session THEN
    IF outcome = 'claimed' THEN
      lock_pid := pg_backend_pid();
    ELSE
      PERFORM pg_advisory_unlock(hashtext(p_key));
      IF model_locked THEN
        PERFORM pg_advisory_unlock_shared(hashtext(p_model_key));
      END IF;
    END IF;
  END IF;
  RETURN NEXT;
END $$;

-- Extend a lease that is still held. Returns the new expiry, or no row.
CREATE OR REPLACE FUNCTION @schema@.renew_@digest@(
  p_table text, p_id bigint, p_attempt bigint, p_owner text, p_lease interval, p_run_id uuid, p_model_key text)
RETURNS timestamptz LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  expires timestamptz;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  EXECUTE format('UPDATE %I.%I s SET lease_until = clock_timestamp() + $4 WHERE s.id = $1 AND s.attempt = $2 '
                 'AND s.owner = $3 AND s.status = ''running'' AND s.lease_until > clock_timestamp() '
                 'RETURNING s.lease_until', @schema_literal@, p_table)
    INTO expires USING p_id, p_attempt, p_owner, p_lease;
  IF expires IS NOT NULL AND p_model_key IS NOT NULL THEN
    UPDATE @schema@.model_locks l SET lease_until = greatest(l.lease_until, expires)
      WHERE l.state_table = p_table AND l.run_id = p_run_id;
  END IF;
  RETURN expires;
END $$;

-- End a claim: applied, error, pending or blocked.
-- An apply needs the lease to be unexpired at this instant; the row is then locked until the caller's commit, so nobody
-- can take the unit over in between. The others only need that nobody has taken it over.
-- held: whether the claim was still ours. When not, the other columns say whose the row is now.
CREATE OR REPLACE FUNCTION @schema@.finish_@digest@(
  p_table text, p_full_name text, p_id bigint, p_attempt bigint, p_owner text, p_lock_pid integer, p_key text,
  p_model_key text, p_status text, p_reason text, p_rows_in bigint, p_rows_written bigint, p_rows_changed bigint,
  p_duration interval, p_content_hash text, p_details jsonb,
  p_run_id uuid, p_since timestamptz, p_until timestamptz, p_error_type text, p_error_message text, p_traceback text)
RETURNS TABLE (held boolean, applied_at timestamptz, status text, owner text, attempt bigint, lease_until timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rel text := format('%I.%I', @schema_literal@, p_table);
  done record;
BEGIN
  EXECUTE format(
      'UPDATE %s s SET status = $4, owner = NULL, lease_until = NULL, lock_pid = NULL, '
      '  applied_at = CASE WHEN $4 = ''applied'' THEN clock_timestamp() END, '
      '  blocked_reason = CASE WHEN $4 = ''blocked'' THEN $5 END, '
      '  reason = CASE WHEN $4 <> ''blocked'' THEN $5 END, '
      '  duration = coalesce($6, clock_timestamp() - s.started_at), rows_in = $7, rows_written = $8, rows_changed = $9, '
      '  content_hash = CASE WHEN $4 = ''applied'' THEN $10 ELSE s.content_hash END, details = $11 '
      'WHERE s.id = $1 AND s.attempt = $2 AND s.owner = $3 AND s.status = ''running'' '
      '  AND ($4 <> ''applied'' OR s.lease_until > clock_timestamp()) '
      'RETURNING s.since, s.until, s.run_id, s.started_at, s.applied_at, s.who, s.dag_id, s.airflow_run_id, s.task_id, '
      '  s.try_number', rel)
    INTO done
    USING p_id, p_attempt, p_owner, p_status, p_reason, p_duration, p_rows_in, p_rows_written, p_rows_changed,
          p_content_hash, p_details;
  held := done.run_id IS NOT NULL;
  IF p_error_type IS NOT NULL THEN
    INSERT INTO @schema@.errors
        (full_name, run_id, since, until, error_type, error_message, traceback, attempt, details, created_at)
      VALUES (p_full_name, p_run_id, p_since, p_until, p_error_type, p_error_message, p_traceback, p_attempt,
              coalesce(p_details, '{}'), clock_timestamp());
  END IF;
  IF held THEN
    applied_at := done.applied_at;
    status := p_status;
    IF p_status <> 'blocked' THEN    -- waiting is not an event; what waited for is on the row
      INSERT INTO @schema@.history (full_name, since, until, run_id, attempt, outcome, reason, started_at, rows_in,
            rows_written, rows_changed, owner, who, dag_id, airflow_run_id, task_id, try_number)
        VALUES (p_full_name, done.since, done.until, done.run_id, p_attempt, p_status, p_reason, done.started_at,
            p_rows_in, p_rows_written, p_rows_changed, p_owner, done.who, done.dag_id, done.airflow_run_id,
            done.task_id, done.try_number);
    END IF;
    IF p_status = 'applied' THEN
      PERFORM pg_notify(@schema_literal@, p_table);
    END IF;
  ELSE
    EXECUTE format('SELECT s.status, s.owner, s.attempt, s.lease_until FROM %s s WHERE s.id = $1', rel)
      INTO status, owner, attempt, lease_until USING p_id;
  END IF;
  IF held OR p_status <> 'applied' THEN    -- a lost apply is rolled back, and its claim ended by a fail or a release
    PERFORM @schema@.hand_back_lock_@digest@(p_lock_pid, p_key, p_model_key);
  END IF;
  RETURN NEXT;
END $$;
