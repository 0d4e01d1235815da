-- A gap in the log that the position has passed. It is open until a comparison that began after it has ended: walk_ms and
-- walk_seq are at least as far then. walk_left is the share that a comparison has still to read.
alter table hookladder.position add gap_ms bigint, add gap_seq bigint, add walk_left real;
