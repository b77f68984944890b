-- The twin of `turns.place_line` for PostgreSQL: the plain claim in one call.
--
-- It grants or declines; it never refuses. True: all that the steps would have written is written.
-- False: nothing is, and the caller takes the steps, which say why not, or do what is not plain.
-- `moves/twin.py` says what the plan holds. Whatever it writes, the constraints judge as they judge
-- the steps.
--
-- Locks in the order of the steps: move, host, inventory, seat. Each statement looks anew, so what
-- is looked at after a lock was waited for is as it is now.
--
-- The text is part of a migration: a changed function is a new one, place_3, in a new revision. (place_1
-- left the queue to its caller, whose look came before the lock.)
CREATE OR REPLACE FUNCTION place_2(plan json) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    p record;
    member record;
    target record;
    fitting bigint;
    sits boolean;
    number bigint;
BEGIN
    SELECT * INTO p FROM json_to_record(plan) AS of_plan(
        move text, epoch bigint, line bigint, seen_facts text, seen_server double precision,
        server text, host text, host_epoch bigint, claim text, role text, wants json,
        facts json, action bigint, event text, since double precision, at double precision,
        ask text, slot text, verb text, args json, ticket bigint, patient boolean
    );

    -- The move, held at the caller's lease (M5), and the server: both as the caller saw them.
    PERFORM FROM move
      WHERE id = p.move AND epoch = p.epoch AND state = 'running' AND line = p.line
        AND facts::text = p.seen_facts
        FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;
    SELECT s.rule, s.group_id, coalesce(g.per_host, 1) AS per_host INTO member
      FROM server s LEFT JOIN server_group g ON g.id = s.group_id
      WHERE s.id = p.server AND s.updated_at = p.seen_server AND s.rule IN ('none', 'anti-affinity');
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM FROM ask WHERE move_id = p.move AND slot = p.slot;
    IF FOUND THEN RETURN false; END IF;

    -- The host may be given something.
    SELECT name, epoch INTO target FROM host
      WHERE id = p.host AND status = 'up' AND NOT disabled AND epoch = coalesce(p.host_epoch, epoch)
        FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;

    -- M7: nobody waits for it who came first. Looked at now that the host is held: whoever began to wait
    -- meanwhile is seen.
    IF member.group_id IS NOT NULL OR p.patient THEN
        PERFORM FROM queue q JOIN move m ON m.id = q.move_id
          WHERE q.host_id = p.host AND q.until > p.at AND m.state = 'running' AND q.ticket < p.ticket
            AND (q.group_id = member.group_id OR (p.patient AND q.room));
        IF FOUND THEN RETURN false; END IF;
    END IF;

    -- C1: it has room. Whoever changes an inventory holds its host.
    SELECT count(*) INTO fitting
      FROM json_each_text(p.wants) AS w(class, amount)
      JOIN inventory i ON i.provider_id = p.host AND i.class = w.class
      WHERE i.used + w.amount::bigint <= i.capacity
        AND w.amount::bigint BETWEEN i.min_unit AND i.max_unit
        AND mod(w.amount::bigint, i.step_size) = 0;
    IF fitting < (SELECT count(*) FROM json_object_keys(p.wants)) THEN RETURN false; END IF;

    -- G1: a seat, the member's own one if it has it already.
    IF member.rule = 'anti-affinity' THEN
        sits := EXISTS (
            SELECT FROM seat WHERE group_id = member.group_id AND domain = p.host AND server_id = p.server
        );
        FOR n IN 1..member.per_host LOOP
            EXIT WHEN sits;
            INSERT INTO seat (group_id, domain, seat, per_host, server_id)
              VALUES (member.group_id, p.host, n, member.per_host, p.server)
              ON CONFLICT (group_id, domain, seat) DO NOTHING;
            sits := FOUND;
        END LOOP;
        IF NOT sits THEN RETURN false; END IF;
    END IF;

    -- After this point it must succeed.
    UPDATE inventory i SET used = i.used + w.amount::bigint
      FROM json_each_text(p.wants) AS w(class, amount)
      WHERE i.provider_id = p.host AND i.class = w.class;
    INSERT INTO claim (id, server_id, host_id, host_epoch, move_id, role, rule, group_id, domain)
      VALUES (p.claim, p.server, p.host, target.epoch, p.move, p.role, member.rule, member.group_id,
              CASE member.rule WHEN 'anti-affinity' THEN p.host END);
    INSERT INTO allocation (claim_id, provider_id, class, amount)
      SELECT p.claim, p.host, w.class, w.amount::bigint FROM json_each_text(p.wants) AS w(class, amount);
    UPDATE provider SET generation = generation + 1 WHERE id = p.host;
    INSERT INTO history (at, event, claim_id, server_id, host_id, move_id, group_id, policy, per_host, amounts)
      VALUES (p.at, 'claimed', p.claim, p.server, p.host, p.move, member.group_id, member.rule,
              member.per_host, p.wants);

    -- The line's event, and the next line with its ask.
    IF p.event IS NOT NULL THEN
        INSERT INTO event (action, event, result, host, started_at, finished_at)
          VALUES (p.action, p.event, 'Success', target.name, p.since, p.at);
        UPDATE action SET updated_at = p.at WHERE action.number = p.action;
    END IF;
    UPDATE move
      SET line = p.line + 1, attempt = 0, line_since = p.at, updated_at = p.at,
          target_id = p.host, facts = p.facts
      WHERE id = p.move;
    IF p.ask IS NOT NULL THEN
        UPDATE host SET asks = asks + 1 WHERE id = p.host RETURNING asks INTO number;
        INSERT INTO ask (id, move_id, slot, server_id, host_id, host_epoch, seq, verb, args, asked_at)
          VALUES (p.ask, p.move, p.slot, p.server, p.host, target.epoch, number, p.verb, p.args, p.at);
    END IF;
    RETURN true;
END $$
