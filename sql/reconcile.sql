-- Is the replica equal to its source? Both are relations of this database: the source itself, a foreign table over it,
-- or a copy. Compare with the live rows (`<name>_current`) at a moment when the replica has caught up.

-- One line a side: rows, a hash that does not depend on their order, and one over the rows in key order. Only the
-- columns of the source count, by name, so the replica may have more.
create or replace function reconcile_summary(source regclass, replica regclass, key_columns text[])
returns table (side text, row_count bigint, unordered_hash numeric, ordered_hash text)
language plpgsql stable as $$
declare
  visible text := (select string_agg(quote_ident(column_name), ', ' order by ordinal) from replica_columns(source));
  keys    text := (select string_agg(quote_ident(k), ', ' order by nth) from unnest(key_columns) with ordinality as u(k, nth));
begin
  return query execute (
    select string_agg(format($sql$
      select %L, count(*),
             coalesce(sum(('x' || left(hash, 16))::bit(64)::bigint::numeric), 0),
             md5(coalesce(string_agg(hash, '' order by %s), ''))
      from (select *, md5((row(%s))::text) as hash from %s) rows$sql$, s.side, keys, visible, s.relation), ' union all ')
    from (values ('source', source), ('replica', replica)) as s(side, relation));
end $$;

-- The keys that differ, with what is wrong: 'missing' and 'extra' are from the replica's point of view. Null-safe in
-- key columns and in every other one; no line means that the two are equal.
create or replace function reconcile_keys(source regclass, replica regclass, key_columns text[])
returns table (key jsonb, difference text)
language plpgsql stable as $$
declare
  visible text := (select string_agg(quote_ident(column_name), ', ' order by ordinal) from replica_columns(source));
  keys    text := (select string_agg(format('%L, r.%I', k, k), ', ') from unnest(key_columns) k);
begin
  return query execute format($sql$
    with a as (select jsonb_build_object(%1$s) as key, (row(%2$s))::text as image from %3$s r),
         b as (select jsonb_build_object(%1$s) as key, (row(%2$s))::text as image from %4$s r)
    select key, case when a.image is null then 'extra' when b.image is null then 'missing' else 'different' end
    from a full join b using (key)
    where a.image is distinct from b.image
    order by key$sql$, keys, visible, source, replica);
end $$;

-- The greatest LSN that the replica holds. It says how new the newest row is, not that everything up to it is there:
-- the LSNs of concurrent transactions interleave.
create or replace function replica_max_lsn(replica regclass) returns bigint
language plpgsql stable as $$
declare
  answer bigint;
begin
  execute format('select max(source_lsn) from %s', replica) into answer;
  return answer;
end $$;
