-- The source: a shop's orders, as Debezium wants them.
--
-- Run once in the source database, as a superuser:
--     psql -d shop -f sql/source.sql
-- or by mounting the file into /docker-entrypoint-initdb.d of the postgres:16 image.
-- The server needs wal_level = logical.

-- The replication role that Debezium logs in with. 'cdc' is a password for local development:
-- change it (alter role cdc password ...) wherever the port can be reached by others.
-- Roles belong to the whole server, so a second database finds it there already.
do $$
begin
  create role cdc login replication password 'cdc';
exception when duplicate_object then
  null;
end
$$;

-- Lets `highwater reconcile`, which logs in with it too, see how far the server has sent its WAL: where nothing changes, nothing
-- else tells that everything has arrived.
grant pg_read_all_stats to cdc;

create table public.orders (
  order_id    bigint primary key,
  customer_id bigint,
  status      text,
  amount      numeric(12,2),
  updated_at  timestamptz not null default now()
);

-- FULL: a delete and an update carry every column of the old row, so nothing depends on the values
-- that Debezium invents for the columns that it does not know.
alter table public.orders replica identity full;

-- An insert here tells Debezium to do something, such as an incremental snapshot:
--   insert into debezium_signal values ('again-1', 'execute-snapshot',
--     '{"type": "incremental", "data-collections": ["public.orders"]}');
create table public.debezium_signal (
  id   varchar(64) primary key,
  type varchar(32) not null,
  data varchar(2048)
);

grant usage on schema public to cdc;
grant select on public.orders, public.debezium_signal to cdc;
grant insert, update, delete on public.debezium_signal to cdc;

-- cdc does not own the tables, so it can't make the publication itself. Truncates are published too.
create publication shop_pub for table public.orders, public.debezium_signal;
