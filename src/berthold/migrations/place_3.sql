-- The twin of `turns.place_line` for PostgreSQL: the plain claim in one call.
--
-- It grants or declines; it never refuses. True: all that the steps would have written is written.
-- False: nothing is, and the caller takes the steps, which say why not, or do what is not plain.
-- `moves/twin.py` says what it is given. Whatever it writes, the constraints judge as they judge the
-- steps.
--
-- Locks in the order of the steps: move, host, inventory, seat. A lock is taken by the write that needs
-- it, and each statement looks anew, so what is looked at after a lock was waited for is as it is now.
-- What it has written when it declines is undone with the block. All that needs no host is written
-- before it, for what one host can be given is what fits into the time for which it is held; not the
-- history, whose order is that of the claims on it.
--
-- Its plans are those for any values: to plan for each of the first calls of a connection took longer than
-- they did.
--
-- The text is part of a migration: a changed function is a new one, place_4, in a new revision. (place_2
-- locked before it wrote, and took all as one document.)
CREATE OR REPLACE FUNCTION place_3(
    p_move text, p_epoch bigint, p_line bigint, p_seen_facts text, p_seen_server double precision,
    p_server text, p_host text, p_host_name text, p_host_epoch bigint,
    p_claim text, p_role text, p_classes text[], p_amounts bigint[], p_wants json,
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
    -- The move, held at the caller's lease (M5), as the caller saw it.
    UPDATE move
      SET line = p_line + 1, attempt = 0, line_since = p_at, updated_at = p_at,
          target_id = p_host, facts = p_facts
      WHERE id = p_move AND epoch = p_epoch AND state = 'running' AND line = p_line
        AND facts::text = p_seen_facts;
    IF NOT FOUND THEN RETURN false; END IF;

    -- The line's event.
    IF p_event IS NOT NULL THEN
        UPDATE action SET updated_at = p_at WHERE number = p_action;
        INSERT INTO event (action, event, result, host, started_at, finished_at)
          VALUES (p_action, p_event, 'Success', p_host_name, p_since, p_at);
    END IF;
    INSERT INTO allocation (claim_id, provider_id, class, amount)
      SELECT p_claim, p_host, unnest(p_classes), unnest(p_amounts);

    -- One by one: who waits for a row that all before it change looks for the newest version after each of
    -- them; who waits here finds it at once. It is no lock that anything rests on: that is the host's row.
    PERFORM pg_advisory_xact_lock(hashtextextended(p_host, 0));

    -- The host may be given something. Its next ask, if there is one, has this number.
    UPDATE host SET asks = asks + (p_ask IS NOT NULL)::int
      WHERE id = p_host AND status = 'up' AND NOT disabled AND epoch = coalesce(p_host_epoch, epoch)
        AND name = p_host_name
      RETURNING epoch, asks INTO target;
    IF NOT FOUND THEN RAISE 'declined'; END IF;

    -- The server as the caller saw it. M7: nobody waits for the host who came first. Looked at now that it is
    -- held: whoever began to wait meanwhile is seen.
    SELECT s.rule, s.group_id, coalesce(g.per_host, 1) AS per_host INTO member
      FROM server s LEFT JOIN server_group g ON g.id = s.group_id
      WHERE s.id = p_server AND s.updated_at = p_seen_server AND s.rule IN ('none', 'anti-affinity')
        AND NOT EXISTS (
          SELECT FROM queue q JOIN move m ON m.id = q.move_id
            WHERE q.host_id = p_host AND q.until > p_at AND m.state = 'running' AND q.ticket < p_ticket
              AND (q.group_id = s.group_id OR (p_patient AND q.room))
        );
    IF NOT FOUND THEN RAISE 'declined'; END IF;

    -- C1: it has room. Whoever changes an inventory holds its host.
    UPDATE inventory SET used = used + p_amounts[array_position(p_classes, class)]
      WHERE provider_id = p_host AND class = ANY (p_classes)
        AND used + p_amounts[array_position(p_classes, class)] <= capacity
        AND p_amounts[array_position(p_classes, class)] BETWEEN min_unit AND max_unit
        AND mod(p_amounts[array_position(p_classes, class)], step_size) = 0;
    GET DIAGNOSTICS fitting = ROW_COUNT;
    IF fitting < cardinality(p_classes) THEN RAISE 'declined'; END IF;

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

    INSERT INTO claim (id, server_id, host_id, host_epoch, move_id, role, rule, group_id, domain)
      VALUES (p_claim, p_server, p_host, target.epoch, p_move, p_role, member.rule, member.group_id,
              CASE member.rule WHEN 'anti-affinity' THEN p_host END);
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
