-- Ends are found by the token of their subject, so that 8713 finds order_8713 too. Rows of before get one where the subject
-- ends in digits, and else the whole subject.
set local statement_timeout = 0;

alter table hookladder.event add column token text collate "C";
update hookladder.event
set token = coalesce(substring(subject from '(?:^|[^[:alnum:]])([0-9]{3,})$'), lower(subject))
where subject is not null and kind in ('d', 'x', 'c', '?');

drop index hookladder.event_subject;
create index event_token on hookladder.event (token, accepted) where token is not null and kind in ('d', 'x', 'c', '?');
