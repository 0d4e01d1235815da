-- Lists of a lane, a tenant or a subject have the newest accepted first. Ends have that time, too.
set local statement_timeout = 0;

alter table hookladder.event add column accepted timestamptz;
update hookladder.event e
set accepted = coalesce((select max(m.created) from hookladder.message m where m.id = e.id and m.created <= e.at), e.at)
where e.kind in ('d', 'x', 'c', '?');

create index event_lane_accepted    on hookladder.event (lane, accepted)    where kind in ('d', 'x', 'c', '?');
create index event_tenant_accepted  on hookladder.event (tenant, accepted)  where tenant is not null and kind in ('d', 'x', 'c', '?');

-- A subject has few ends, so one index serves both orders.
drop index hookladder.event_subject;
create index event_subject on hookladder.event (subject, accepted) where subject is not null and kind in ('d', 'x', 'c', '?');
