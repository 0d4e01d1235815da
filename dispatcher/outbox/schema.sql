-- The outbox of Hookladder, for PostgreSQL 13 or later. A transaction that changes an
-- order publishes a message with hookladder_publish. The message exists if, and only if,
-- the transaction commits. hookladder serve with OUTBOX_URL relays it.
--
-- This file may be applied again, because it keeps existing rows. The role of OUTBOX_URL
-- needs all rights on the three tables. A role that publishes needs only
--   grant insert (id, message, body) on hookladder_outbox to shop;
--   grant select on hookladder_relay to shop;
-- The other columns belong to the relay.

-- What exists already, or does not exist yet, is no news.
set client_min_messages = warning;

-- Messages that wait for the relay. It deletes them after they are accepted.
create table if not exists hookladder_outbox (
    seq      bigint generated always as identity primary key,
    id       text collate "C" not null, -- of the message: a row that is relayed twice makes one message
    message  jsonb not null,            -- as POST /v1/messages takes it, without id and delay
    body     bytea,                     -- sent byte for byte; null: the message has it
    key      text collate "C" generated always as (message ->> 'ordering_key') stored,
    at       timestamptz not null default clock_timestamp(),
    retry_at timestamptz                -- the row is not relayed before this time; null: relayed at once
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The relay can't calculate with an infinite time. This adds the check to tables of an older schema.
update hookladder_outbox set at = clock_timestamp() where not isfinite(at);
update hookladder_outbox set retry_at = null where not isfinite(retry_at);
alter table hookladder_outbox drop constraint if exists hookladder_outbox_times;
alter table hookladder_outbox add constraint hookladder_outbox_times check (isfinite(at) and isfinite(retry_at));

create index if not exists hookladder_outbox_waits on hookladder_outbox (key, seq) where retry_at is not null;

-- Rejected messages, with the problem that the API returns. To retry one after the cause is gone:
--   with r as (delete from hookladder_rejected where seq = 17 returning *)
--   insert into hookladder_outbox (id, message, body) select id, message, body from r;
create table if not exists hookladder_rejected (
    seq         bigint generated always as identity primary key,
    id          text collate "C" not null,
    message     jsonb not null,
    body        bytea,
    at          timestamptz not null,
    problem     jsonb not null,
    rejected_at timestamptz not null default clock_timestamp()
);

-- One row, which is locked by the working relay. While asleep is true, publishing notifies the relay.
-- A notify makes commits wait for each other: 16 callers lose a third of their rate, more on a slow disk.
create table if not exists hookladder_relay (
    one    boolean primary key default true check (one),
    asleep boolean not null default true
) with (fillfactor = 50);
insert into hookladder_relay (one) values (true) on conflict do nothing;

-- Returns an id as the API makes it: msg_ and a ULID. Its random digits are hexadecimal, which makes
-- 64 random bits, because that takes a quarter of the time.
create or replace function hookladder_id() returns text
language plpgsql volatile parallel safe as $$
declare
    digits constant text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
    ms     constant bigint := extract(epoch from clock_timestamp()) * 1000;
    random constant text := gen_random_uuid();
begin
    return 'msg_' || substr(digits, 1 + (ms >> 45 & 31)::int, 1) || substr(digits, 1 + (ms >> 40 & 31)::int, 1) ||
        substr(digits, 1 + (ms >> 35 & 31)::int, 1) || substr(digits, 1 + (ms >> 30 & 31)::int, 1) ||
        substr(digits, 1 + (ms >> 25 & 31)::int, 1) || substr(digits, 1 + (ms >> 20 & 31)::int, 1) ||
        substr(digits, 1 + (ms >> 15 & 31)::int, 1) || substr(digits, 1 + (ms >> 10 & 31)::int, 1) ||
        substr(digits, 1 + (ms >> 5 & 31)::int, 1) || substr(digits, 1 + (ms >> 0 & 31)::int, 1) ||
        upper(left(random, 4) || right(random, 12));
end
$$;

-- Returns the seconds of a delay: a number of seconds, or a text such as 15s, 1h30m, 1d. Returns null if it is invalid.
create or replace function hookladder_seconds(delay jsonb) returns double precision
language sql immutable parallel safe as $$
    select case
        when jsonb_typeof(delay) = 'number' or delay #>> '{}' ~ '^([0-9]+\.?[0-9]*|\.[0-9]+)$' then (delay #>> '{}')::double precision
        when jsonb_typeof(delay) = 'string' and delay #>> '{}' ~ '^(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h|d))+$' then (
            select sum(part[1]::double precision * case part[2]
                when 'd' then 86400 when 'h' then 3600 when 'm' then 60 when 's' then 1 when 'ms' then 1e-3 when 'us' then 1e-6 else 1e-9 end)
            from regexp_matches(delay #>> '{}', '([0-9.]+)(ns|us|ms|s|m|h|d)', 'g') as part)
    end
$$;

-- Publishes a message in the caller's transaction and returns the message's id.
--
-- message has the fields of POST /v1/messages. body is sent byte for byte; without a
-- content_type it must be JSON. Without body the message has a field body (whose members
-- jsonb sorts), raw_body or raw_body_base64. A repeat with the same id and content is
-- published once; other content under the id is rejected.
--
-- An invalid argument fails the transaction. If only the dispatcher can find the error,
-- such as an unknown endpoint, the message goes to hookladder_rejected.
create or replace function hookladder_publish(message jsonb, body bytea default null, id text default null) returns text
language plpgsql volatile set search_path from current as $$
declare
    topic text := message ->> 'topic';
    named text := coalesce(id, message ->> 'id', hookladder_id());
    wait  double precision;
begin
    if jsonb_typeof(message) is distinct from 'object' then
        raise invalid_parameter_value using message = 'hookladder_publish: message must be an object such as {"topic":"order.paid"}';
    elsif topic is null or length(topic) > 128 or topic !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$' or topic like 'hookladder.%' then
        raise invalid_parameter_value using message = 'hookladder_publish: topic must be words of A-Z a-z 0-9 _ - with dots between, together at most 128, not beginning with hookladder.';
    elsif named !~ '^[A-Za-z0-9_-]{1,128}$' then
        raise invalid_parameter_value using message = 'hookladder_publish: id must be 1 to 128 of A-Z a-z 0-9 _ -';
    elsif body is null and not message ?| '{body,raw_body,raw_body_base64}' then
        raise invalid_parameter_value using message = 'hookladder_publish: a body is needed: as the second argument, or one of body, raw_body and raw_body_base64 in message';
    elsif body is not null and message ?| '{body,raw_body,raw_body_base64}' then
        raise invalid_parameter_value using message = 'hookladder_publish: give body as the second argument or in message, not both';
    end if;
    if jsonb_typeof(message -> 'delay') <> 'null' then
        wait := hookladder_seconds(message -> 'delay');
        if wait is null or wait < 0 or wait > 365 * 86400 then
            raise invalid_parameter_value using message = 'hookladder_publish: delay must be a text such as 15s, 1h30m or 1d, or a number of seconds, at most 365 days';
        elsif jsonb_typeof(message -> 'deliver_at') <> 'null' then
            raise invalid_parameter_value using message = 'hookladder_publish: give delay or deliver_at, not both';
        end if;
        -- The delay counts from now, not from when the row is relayed.
        message := message - 'delay' || jsonb_build_object('deliver_at', to_char(
            (clock_timestamp() + wait * interval '1 second' + interval '999 microseconds') at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
    end if;
    insert into hookladder_outbox (id, message, body) values (named, message - 'id', body);
    perform pg_notify('hookladder_outbox', '') from hookladder_relay where asleep;
    return named;
end
$$;

reset client_min_messages;
