-- The archive. The schema's name is replaced where a project has one of its own.
-- Texts have the collation "C": it is faster, and no library's update changes their order.
-- Texts from outside are bytea because a text takes no NUL and no invalid UTF-8.

-- A message, once. month is the month of created, moved into the existing months.
create table hookladder.message (
  month      date        not null,
  created    timestamptz not null,
  id         text        collate "C" not null,
  tenant     text        collate "C",
  subject    text        collate "C",
  topic      text        collate "C" not null,
  size       int         not null,       -- bytes of the body, also where that is not kept
  head       bytea,                      -- the record without its body; null: it had gone
  body       bytea,
  primary key (id, created, month)
) partition by range (month);

-- Events, a row each; no query ever updates them. Kinds are the kinds of archive.Kind.
create table hookladder.event (
  month     date        not null,
  at        timestamptz not null,        -- when it was written, by the partition's clock
  pos       bigint      not null,        -- orders the events of a partition
  partition int2        not null,
  kind      "char"      not null,
  id        text        collate "C" not null, -- of the message
  lane      text        collate "C" not null,
  n         int         not null,        -- the attempt's number, or attempts so far
  status    int2        not null,        -- HTTP status; 0: no response
  took      int         not null,        -- ms
  wait      bigint      not null,        -- ms until the next attempt
  began     timestamptz,                 -- of the attempt; null: none was made
  class     text        collate "C",
  reason    text        collate "C",     -- why it died
  addr      text        collate "C",     -- connected to
  url       text        collate "C",     -- of the request, if that is not the message's own
  by        text        collate "C",     -- who asked
  mark      text        collate "C",     -- resend; of a resent one: anew, or the due time in ms that it interrupted
  topic     text        collate "C",
  tenant    text        collate "C",
  subject   text        collate "C",
  error     bytea,
  answer    bytea,                       -- its head
  primary key (id, partition, pos, month)
) partition by range (month);

create index event_lane    on hookladder.event (lane, at, partition, pos)    where kind in ('d', 'x', 'c', '?');
create index event_tenant  on hookladder.event (tenant, at, partition, pos)  where tenant is not null and kind in ('d', 'x', 'c', '?');
create index event_subject on hookladder.event (subject, at, partition, pos) where subject is not null and kind in ('d', 'x', 'c', '?');

-- Unfinished deliveries: few rows, updated often. head and body are here only while the message does not have them.
create table hookladder.open (
  id        text        collate "C" not null,
  lane      text        collate "C" not null,
  partition int2        not null,
  epoch     text        collate "C" not null,
  created   timestamptz not null,
  pos       bigint      not null,
  due       timestamptz,
  attempts  int         not null,
  base      int         not null,
  beside    int         not null,
  asked     timestamptz,
  topic     text        collate "C",
  tenant    text        collate "C",
  subject   text        collate "C",
  seen      bigint      not null default 0, -- by the last walk through the store that met it
  head      bytea,
  body      bytea,
  primary key (id, lane)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, fillfactor = 80);

-- How far each partition of the store is archived, and by which instance. -1: a restore.
create table hookladder.position (
  partition int         primary key,
  epoch     text        collate "C" not null,
  ms        bigint      not null,
  seq       bigint      not null,
  last      bigint      not null,        -- highest pos so far
  began     timestamptz not null default now(),
  walk_ms   bigint,                      -- the gap for which the last whole walk was; null: there was none in this epoch
  walk_seq  bigint,
  holder    text        collate "C",
  until     timestamptz
);

create table hookladder.endpoint (
  id      text        collate "C" primary key,
  version bigint      not null,
  record  bytea       not null,          -- sealed, as the store has it
  deleted timestamptz
);

create table hookladder.hold (
  lane  text        collate "C" primary key,
  since timestamptz not null,
  by    text        collate "C" not null
);

create table hookladder.audit (
  at     timestamptz not null default now(),
  by     text        collate "C" not null,
  what   text        collate "C" not null,
  detail jsonb       not null
);
