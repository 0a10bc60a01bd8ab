-- The worked example, from the repository's root, in a database of its own:
--
--     createdb worked_example && psql -d worked_example -f sql/worked_example.sql
--
-- Applies testdata/worked_example in three batches, replays it, and stops with an error where the replica is not the
-- expected table, the replay changes a row, or the live rows differ from the source's.
\set ON_ERROR_STOP on
\set QUIET on
\ir apply.sql
\ir reconcile.sql

create temporary table lines (line jsonb);
\copy lines from 'testdata/worked_example/messages.ndjson' with (format csv, quote e'\x01', delimiter e'\x02')
insert into messages select m.* from lines, jsonb_populate_record(null::messages, line) m;

call create_replica('shop.public.orders', 'orders',
                    'order_id integer not null, status text, amount numeric(10,2)', array['order_id']);

create temporary view applied as select order_id, status, amount, source_lsn, is_deleted from orders_replica;

\echo 'Batches of offsets 1-4, 5-8, 9-11:'
call apply_messages('shop.public.orders', 1, 4);
call apply_messages('shop.public.orders', 5, 8);
call apply_messages('shop.public.orders', 9, 11);

\echo 'The replica:'
table applied order by order_id;

create temporary table expected (order_id integer, status text, amount numeric(10,2), source_lsn bigint, is_deleted boolean);
\copy expected from 'testdata/worked_example/expected.tsv' with (format csv, delimiter e'\t', header)
create temporary table source (order_id integer, status text, amount numeric(10,2));
\copy source from 'testdata/worked_example/source.tsv' with (format csv, delimiter e'\t', header)

\echo 'Everything again, from the earliest offset:'
call replay_messages('shop.public.orders');

\echo 'The source and the live rows:'
select * from reconcile_summary('source', 'orders_current', array['order_id']);
select replica_max_lsn('orders_replica');

do $$
declare
  received bigint;
  changed  bigint;
begin
  if exists ((table expected except all table applied) union all (table applied except all table expected)) then
    raise exception 'the replica is not the expected table';
  end if;
  if exists (select from reconcile_keys('source', 'orders_current', array['order_id'])) then
    raise exception 'the live rows are not the rows of the source';
  end if;
  call replay_messages('shop.public.orders', received, changed);
  if received <> 11 or changed <> 0 then
    raise exception 'the replay of % messages changed % rows', received, changed;
  end if;
end $$;
\echo 'As expected.'
