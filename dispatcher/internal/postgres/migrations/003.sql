-- A paused lane is restored with its origin or queue. It stays for a restore as long as its partition has data of another
-- epoch; empty: that is not known. For an endpoint, home names the data of the store that it was read from.
alter table hookladder.hold add column name  text collate "C" not null default '';
alter table hookladder.hold add column epoch text collate "C" not null default '';
alter table hookladder.endpoint add column home text collate "C" not null default '';
