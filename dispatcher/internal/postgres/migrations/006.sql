-- How many lines of a partition's log were cut before they were archived, when its position was written last. An instance
-- that begins reports those that were cut since.
alter table hookladder.position add dropped bigint not null default 0;
