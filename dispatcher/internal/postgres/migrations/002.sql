-- Deliveries that died as their message was accepted had ends without the names of that message, so no look-up by tenant
-- or subject found them.
set local statement_timeout = 0;

update hookladder.event e set topic = m.topic, tenant = m.tenant, subject = m.subject
from hookladder.message m
where e.topic is null and e.kind in ('d', 'x', 'c', '?') and m.id = e.id
  and not exists (select from hookladder.message other where other.id = e.id and other.created <> m.created
    and (other.created > m.created and other.created <= e.at or other.created < m.created and e.at < m.created));
