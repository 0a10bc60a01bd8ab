-- A change generator for public.orders (sql/source.sql):
--
--     call generate_changes(1000, 5000, 500);                       -- inserts, updates, deletes
--     call generate_changes(1000, 5000, 500, seed => 7, rows_per_commit => 50, pause => '20 ms');
--
-- The changes come in a random order, `rows_per_commit` to a transaction, with a pause after each commit
-- (so the rate is rows_per_commit / pause at most). The same seed on the same rows gives the same keys, kinds
-- and values; only updated_at is the clock's. One insert in four takes the key of a row deleted in this call. An
-- update or delete that finds no row (the table is empty, or all near rows are locked by others) becomes an
-- insert, so the number of changes is always inserts + updates + deletes. Several calls may run at once.
-- Call it outside a transaction block: it commits.

create sequence if not exists public.order_ids;

create or replace procedure public.generate_changes(
  inserts         integer,
  updates         integer,
  deletes         integer,
  seed            integer  default 1,
  rows_per_commit integer  default 100,
  pause           interval default '0 s'
)
language plpgsql as $$
declare
  statuses constant text[] := array['new', 'paid', 'packed', 'sent', 'returned', 'two, with a comma',
                                    'a "quoted" one', 'größer ≥ 北京', '', null];
  left_i   integer := inserts;
  left_u   integer := updates;
  left_d   integer := deletes;
  done     integer := 0;
  dice     double precision;
  target   bigint;
  gone     bigint[] := '{}';
begin
  perform setseed((seed % 1000000) / 1000000.0);
  while left_i + left_u + left_d > 0 loop
    dice := random() * (left_i + left_u + left_d);
    target := null;
    if dice >= left_i then
      -- An existing row near a random key; rows that another transaction holds are passed over, so that two generators never
      -- deadlock.
      select order_id into target from public.orders
       where order_id >= 1 + floor(random() * (select coalesce(max(order_id), 0) from public.orders))::bigint
       order by order_id limit 1 for update skip locked;
    end if;

    if target is null then
      if coalesce(array_length(gone, 1), 0) > 0 and random() < 0.25 then
        target := gone[array_length(gone, 1)];
        gone := trim_array(gone, 1);
      else
        target := nextval('public.order_ids');
      end if;
      insert into public.orders (order_id, customer_id, status, amount, updated_at)
      values (target, nullif(floor(random() * 1000)::bigint, 0), statuses[1 + floor(random() * 10)::integer],
              case when random() < 0.02 then null else round((random() * 20000 - 10000)::numeric, 2) end, clock_timestamp())
      on conflict (order_id) do update
        set status = excluded.status, amount = excluded.amount, updated_at = excluded.updated_at;
    elsif dice < left_i + left_u then
      update public.orders
         set status = statuses[1 + floor(random() * 10)::integer],
             amount = round((random() * 20000 - 10000)::numeric, 2),
             updated_at = clock_timestamp()
       where order_id = target;
    else
      delete from public.orders where order_id = target;
      gone := gone || target;
    end if;

    if dice < left_i then left_i := left_i - 1;
    elsif dice < left_i + left_u then left_u := left_u - 1;
    else left_d := left_d - 1;
    end if;

    done := done + 1;
    if done % rows_per_commit = 0 then
      commit;
      perform pg_sleep(extract(epoch from pause)) where pause > '0 s';
    end if;
  end loop;
  commit;
end
$$;
