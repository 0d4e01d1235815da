-- The first migration that a program must know to use the tables after this one; null: this one. An older program works with
-- later tables if it need not know their migrations.
alter table hookladder.version add column needs int;
