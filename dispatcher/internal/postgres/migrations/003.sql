-- A lane that is paused is restored with what it is for. It stays for a restore as long as its partition's data are others
-- than those of epoch; empty: that is not known. Of an endpoint home names the data of the store that it was read from.
alter table hookladder.hold add column name  text collate "C" not null default '';
alter table hookladder.hold add column epoch text collate "C" not null default '';
alter table hookladder.endpoint add column home text collate "C" not null default '';
