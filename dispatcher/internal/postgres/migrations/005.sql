-- How far the data went that a partition lost: last and gap_ms of its earlier epoch. The instances archive later data
-- before the loss is restored or given up.
alter table hookladder.position add left_last bigint, add left_gap bigint;
