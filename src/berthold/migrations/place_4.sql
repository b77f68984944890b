-- The twin of `turns.place_line` for PostgreSQL: the plain claim in one call.
--
-- It grants or declines; it never refuses. True: all that the steps would have written is written.
-- False: nothing is, and the caller takes the steps, which say why not, or do what is not plain.
-- `moves/twin.py` says what it is given. Whatever it writes, the constraints judge as they judge the
-- steps.
--
-- Locks in the order of the steps: move, host, inventory, seat. A lock is taken by the write that needs
-- it, and each statement looks anew, so what is looked at after a lock was waited for is as it is now.
-- What it has written when it declines is undone with the block. What one host can be given is what fits
-- into the time for which it is held, so all that needs no host comes before it: the move, its event, and
-- the look at the server and its group, whose rule and seats the foreign keys of claim and seat judge again.
-- After it comes what others decide who hold it: the epoch and number of the ask, M7, C1, the seat; and
-- the history, whose order is that of the claims on the host.
--
-- Its plans are those for any values: to plan for each of the first calls of a connection took longer than
-- they did.
--
-- The text is part of a migration: a changed function is a new one, place_5, in a new revision. (place_3
-- wrote what a claim takes in rows of their own, and looked at the server while it held the host.)
CREATE OR REPLACE FUNCTION place_4(
    p_move text, p_epoch bigint, p_line bigint, p_seen_facts text, p_seen_server double precision,
    p_server text, p_host text, p_host_name text, p_host_epoch bigint,
    p_claim text, p_role text, p_vcpus bigint, p_memory_mb bigint, p_disk_gb bigint, p_wants json,
    p_facts json, p_action bigint, p_event text, p_since double precision, p_at double precision,
    p_ask text, p_slot text, p_verb text, p_args json,
    p_ticket bigint, p_patient boolean
) RETURNS boolean LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    member record;
    target record;
    fitting bigint;
    seated boolean := false;
BEGIN
    -- The move, held at the caller's lease (M5), and the server, both as the caller saw them.
    UPDATE move
      SET line = p_line + 1, attempt = 0, line_since = p_at, updated_at = p_at,
          target_id = p_host, facts = p_facts
      FROM server s LEFT JOIN server_group g ON g.id = s.group_id
      WHERE move.id = p_move AND move.epoch = p_epoch AND move.state = 'running' AND move.line = p_line
        AND move.facts::text = p_seen_facts
        AND s.id = p_server AND s.updated_at = p_seen_server AND s.rule IN ('none', 'anti-affinity')
      RETURNING s.rule, s.group_id, coalesce(g.per_host, 1) AS per_host INTO member;
    IF NOT FOUND THEN RETURN false; END IF;

    -- The line's event.
    IF p_event IS NOT NULL THEN
        UPDATE action SET updated_at = p_at WHERE number = p_action;
        INSERT INTO event (action, event, result, host, started_at, finished_at)
          VALUES (p_action, p_event, 'Success', p_host_name, p_since, p_at);
    END IF;

    -- One by one: who waits for a row that all before it change looks for the newest version after each of
    -- them; who waits here finds it at once. It is no lock that anything rests on: that is the host's row.
    PERFORM pg_advisory_xact_lock(hashtextextended(p_host, 0));

    -- The host may be given something. Its next ask, if there is one, has this number.
    UPDATE host SET asks = asks + (p_ask IS NOT NULL)::int
      WHERE id = p_host AND status = 'up' AND NOT disabled AND epoch = coalesce(p_host_epoch, epoch)
        AND name = p_host_name
      RETURNING epoch, asks INTO target;
    IF NOT FOUND THEN RAISE 'declined'; END IF;

    -- C1: it has room; whoever changes an inventory holds its host. M7: nobody waits for it who came first.
    -- Looked at now that it is held: whoever began to wait meanwhile is seen.
    UPDATE inventory SET used = used + taken.amount
      FROM (VALUES ('VCPU', p_vcpus), ('MEMORY_MB', p_memory_mb), ('DISK_GB', p_disk_gb)) taken (class, amount)
      WHERE provider_id = p_host AND inventory.class = taken.class AND taken.amount <> 0
        AND used + taken.amount <= capacity AND taken.amount BETWEEN min_unit AND max_unit
        AND mod(taken.amount, step_size) = 0
        AND NOT EXISTS (
          SELECT FROM queue q JOIN move m ON m.id = q.move_id
            WHERE q.host_id = p_host AND q.until > p_at AND m.state = 'running' AND q.ticket < p_ticket
              AND (q.group_id = member.group_id OR (p_patient AND q.room))
        );
    GET DIAGNOSTICS fitting = ROW_COUNT;
    IF fitting = 0 OR fitting < (p_vcpus <> 0)::int + (p_memory_mb <> 0)::int + (p_disk_gb <> 0)::int THEN
        RAISE 'declined';
    END IF;

    -- G1: a seat. One that is the member's own already is left to the steps.
    IF member.rule = 'anti-affinity' THEN
        FOR n IN 1..member.per_host LOOP
            INSERT INTO seat (group_id, domain, seat, per_host, server_id)
              VALUES (member.group_id, p_host, n, member.per_host, p_server)
              ON CONFLICT DO NOTHING;
            seated := FOUND;
            EXIT WHEN seated;
        END LOOP;
        IF NOT seated THEN RAISE 'declined'; END IF;
    END IF;

    INSERT INTO claim (id, server_id, host_id, host_epoch, move_id, role, rule, group_id, domain,
                       vcpus, memory_mb, disk_gb)
      VALUES (p_claim, p_server, p_host, target.epoch, p_move, p_role, member.rule, member.group_id,
              CASE member.rule WHEN 'anti-affinity' THEN p_host END, p_vcpus, p_memory_mb, p_disk_gb);
    UPDATE provider SET generation = generation + 1 WHERE id = p_host;
    INSERT INTO history (at, event, claim_id, server_id, host_id, move_id, group_id, policy, per_host, amounts)
      VALUES (p_at, 'claimed', p_claim, p_server, p_host, p_move, member.group_id, member.rule,
              member.per_host, p_wants);

    -- The next line's ask.
    IF p_ask IS NOT NULL THEN
        INSERT INTO ask (id, move_id, slot, server_id, host_id, host_epoch, seq, verb, args, asked_at)
          VALUES (p_ask, p_move, p_slot, p_server, p_host, target.epoch, target.asks, p_verb, p_args, p_at);
    END IF;
    RETURN true;
EXCEPTION
    -- Not plain; or something is there already, and the steps know what to make of that.
    WHEN raise_exception OR unique_violation THEN RETURN false;
END $$
