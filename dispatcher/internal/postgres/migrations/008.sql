-- Ends are found by the token of their subject, so that 8713 finds order_8713 too. Ends of before have none: the whole subject
-- finds them. So no row is rewritten.
set local statement_timeout = 0;

alter table hookladder.event add column token text collate "C";

drop index hookladder.event_subject;
create index event_token on hookladder.event (coalesce(token, subject), accepted)
  where coalesce(token, subject) is not null and kind in ('d', 'x', 'c', '?');
