-- The apply logic of Highwater in plain SQL, for PostgreSQL 15 and later: the executable specification of how
-- a topic of change events becomes a replica. sql/README.md lists the calls; the Delta replica gives equal rows.
--
-- No psql meta-commands: the file can be sent as one batch, and again over an older load of itself.

-- ---------------------------------------------------------------------------------------------------- tables

-- Kafka's records, as delivered. `key` and `value` may carry a {"schema", "payload"} wrapper; a null value is a
-- tombstone. Columns are named as in a recorded line, so jsonb_populate_record(null::messages, line) is a row.
create table if not exists messages (
  topic       text    not null,
  "partition" integer not null,
  "offset"    bigint  not null,
  key         jsonb,
  value       jsonb,
  primary key (topic, "offset", "partition")
);

-- One row a replica: where its events come from, and its floor, the order at or below which an absent key is refused.
create table if not exists replica_tables (
  topic        text     primary key,
  relation     regclass not null unique,
  key_columns  text[]   not null check (cardinality(key_columns) > 0),
  decimal_form text     not null check (decimal_form in ('text', 'base64')),
  floor_anchor bigint   not null default 0,
  floor_lsn    bigint   not null default 0
);

-- The checkpoint: per partition the next offset to apply, and the greatest LSN of an initial snapshot's row
-- read so far, which orders the transactions that name no commit before them.
create table if not exists apply_state (
  topic             text    not null references replica_tables on delete cascade,
  "partition"       integer not null,
  next_offset       bigint  not null,
  greatest_snapshot bigint  not null default 0,
  primary key (topic, "partition")
);

-- Makes `<name>_replica` (the source's columns, then the three of our own) and `<name>_current` (its live rows).
-- `columns` is a column list as in CREATE TABLE. Key columns that are not declared NOT NULL are compared null-safe.
create or replace procedure create_replica(
  for_topic text, name text, columns text, key_columns text[], decimal_form text default 'text')
language plpgsql as $$
declare
  relation text := name || '_replica';
  visible  text;
begin
  execute format(
    'create table %I (%s, source_lsn bigint not null, source_anchor bigint not null, is_deleted boolean not null,
       unique nulls not distinct (%s))',
    relation, columns, (select string_agg(quote_ident(k), ', ') from unnest(key_columns) k));
  select string_agg(quote_ident(column_name), ', ' order by ordinal) into visible from replica_columns(relation::regclass);
  execute format('create view %I as select %s from %I where not is_deleted', name || '_current', visible, relation);
  insert into replica_tables values (for_topic, quote_ident(relation)::regclass, key_columns, decimal_form);
end $$;

-- The source's columns of a replica, in order.
create or replace function replica_columns(relation regclass)
returns table (column_name text, ordinal integer, type regtype, modifier integer, required boolean)
language sql stable as $$
  select attname, attnum, atttypid, atttypmod, attnotnull
  from pg_attribute
  where attrelid = relation and attnum > 0 and not attisdropped
    and attname not in ('source_lsn', 'source_anchor', 'is_deleted')
$$;

-- --------------------------------------------------------------------------------------------------- the order

-- What a record says, without Connect's schema wrapper; JSON null is SQL null.
create or replace function payload(record jsonb) returns jsonb
language sql immutable as $$
  select nullif(case when jsonb_typeof(record) = 'object' and record ? 'payload' then record -> 'payload' else record end,
                'null')
$$;

-- An LSN as a number, from a JSON number, a JSON string of digits or PostgreSQL's X/Y text. Never compared as text.
create or replace function lsn_number(lsn jsonb) returns bigint
language sql immutable as $$
  select case when lsn #>> '{}' like '%/%' then ((lsn #>> '{}')::pg_lsn - '0/0')::bigint else (lsn #>> '{}')::bigint end
$$;

-- The pair that decides which of two events of a key is newer. `greatest_snapshot` is the greatest LSN of the
-- initial snapshots' rows read before this event on its partition. Null where the envelope has no LSN.
--
--   snapshot row (r)                     Q = greatest of source.lsn and source.sequence    (Q - 1, Q)
--   streamed, sequence ["C", ...]        C = the commit before its transaction             (C, lsn)
--   streamed, sequence [null, ...]       the first transaction after a snapshot            (greatest(lsn, greatest_snapshot), lsn)
--   streamed, no sequence                                                                  (lsn, lsn)
create or replace function event_order(envelope jsonb, greatest_snapshot bigint, out anchor bigint, out lsn bigint)
language plpgsql immutable as $$
declare
  source    jsonb  := envelope -> 'source';
  sequence  jsonb  := nullif(source ->> 'sequence', '')::jsonb;  -- a JSON array inside a JSON text
  committed bigint := lsn_number(sequence -> 0);
begin
  lsn := lsn_number(source -> 'lsn');
  if envelope ->> 'op' = 'r' then
    lsn := greatest(lsn, committed, lsn_number(sequence -> 1));
    anchor := greatest(lsn - 1, 0);
  elsif committed is not null then
    anchor := committed;
  elsif sequence is not null then
    anchor := greatest(lsn, greatest_snapshot);
  else
    anchor := lsn;
  end if;
end $$;

-- What one envelope adds to its partition's greatest_snapshot. An ad-hoc snapshot, incremental or blocking, runs
-- between streamed changes and names the commit before it, so its rows say nothing about a transaction that was open
-- when an initial snapshot began.
create or replace function snapshot_lsn(envelope jsonb) returns bigint
language sql immutable as $$
  select case when envelope ->> 'op' = 'r' and envelope #>> '{source,snapshot}' is distinct from 'incremental'
               and lsn_number(nullif(envelope #>> '{source,sequence}', '')::jsonb -> 0) is null
              then (event_order(envelope, 0)).lsn end
$$;

-- ------------------------------------------------------------------------------------------------- the decoder

-- What a record is: an op (r, c, u, d, t, m), 'tombstone', 'heartbeat' or 'transaction'; null if none of them.
create or replace function record_kind(envelope jsonb) returns text
language sql immutable as $$
  select case
    when envelope is null then 'tombstone'
    when jsonb_typeof(envelope) <> 'object' then null
    when envelope ->> 'op' in ('r', 'c', 'u', 'd', 't', 'm') then envelope ->> 'op'
    when envelope ? 'op' then null
    when envelope ->> 'status' in ('BEGIN', 'END') and envelope ? 'id' then 'transaction'
    when envelope ? 'ts_ms' and envelope - '{ts_ms,ts_us,ts_ns}'::text[] = '{}' then 'heartbeat'
  end
$$;

-- The row image without its unchanged cells: TOASTed values that the source did not send. Only a whole value counts,
-- and the base64 form only in a bytea column.
create or replace function known_cells(image jsonb, binary_columns text[]) returns jsonb
language sql immutable as $$
  select coalesce(jsonb_object_agg(name, cell) filter (
           where cell <> '"__debezium_unavailable_value"'
             and (cell <> '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="' or name <> all (binary_columns))), '{}')
  from jsonb_each(image) as cells(name, cell)
$$;

-- The records of a range of offsets (both ends included, of each partition or of one), decoded and ordered.
-- `problem` says why a record cannot be applied.
create or replace function decoded_messages(
  for_topic text, from_offset bigint, to_offset bigint, only_partition integer default null)
returns table ("partition" integer, "offset" bigint, kind text, key jsonb, image jsonb, anchor bigint, lsn bigint,
               greatest_snapshot bigint, problem text)
language sql stable as $$
  with replica as (
    select r.key_columns,
           array(select column_name from replica_columns(r.relation) where type = 'bytea'::regtype) as binary_columns
    from replica_tables r where r.topic = for_topic
  ), selected as materialized (
    select m."partition", m."offset", payload(m.key) as key, payload(m.value) as envelope
    from messages m
    where m.topic = for_topic and m."offset" between from_offset and to_offset
      and (only_partition is null or m."partition" = only_partition)
  ), started as materialized (
    -- A range that goes on from the checkpoint starts with its greatest_snapshot. A replayed one starts with what
    -- was known back then: a later snapshot must not lift an old event over the rows that it brought.
    select p."partition", s.next_offset, s.greatest_snapshot as checkpointed,
           case when s.next_offset <= from_offset then s.greatest_snapshot
                else (select max(snapshot_lsn(payload(m.value))) from messages m
                      where m.topic = for_topic and m."partition" = p."partition" and m."offset" < from_offset) end as before
    from (select distinct x."partition" from selected x) p
    left join apply_state s on s.topic = for_topic and s."partition" = p."partition"
  ), marked as (
    select m.*, record_kind(m.envelope) as kind,
           coalesce(greatest(s.before,
                             case when m."offset" >= s.next_offset then s.checkpointed end,
                             max(snapshot_lsn(m.envelope)) over (partition by m."partition" order by m."offset")), 0)
             as greatest_snapshot
    from selected m join started s using ("partition")
  )
  select m."partition", m."offset", m.kind,
         case when is_row.yes then (select jsonb_object_agg(k, m.key -> k) from unnest(r.key_columns) k) end,
         case when m.kind = 'd' then '{}' when is_row.yes then known_cells(m.envelope -> 'after', r.binary_columns) end,
         o.anchor, o.lsn, m.greatest_snapshot,
         case
           when m.kind is null then 'neither an envelope with a known op nor a heartbeat or transaction marker'
           when m.kind not in ('r', 'c', 'u', 'd', 't') then null
           when jsonb_typeof(m.envelope -> 'source') is distinct from 'object' then 'no source'
           when o.anchor is null or o.lsn is null then 'no LSN'
           when m.kind = 't' then null
           when m.key is null then 'a null key with a value'
           when not is_row.yes then 'no key column in the key, or no row image'
         end
  from marked m
  cross join replica r
  left join lateral event_order(m.envelope, m.greatest_snapshot) o on m.kind in ('r', 'c', 'u', 'd', 't')
  cross join lateral (
    select m.kind in ('r', 'c', 'u', 'd')
           and jsonb_typeof(m.key) = 'object' and m.key ?& r.key_columns
           and (m.kind = 'd' or jsonb_typeof(m.envelope -> 'after') = 'object') is true as yes) is_row
$$;

-- ------------------------------------------------------------------------------------------------------- cells

-- A decimal: a JSON number, its text, or the base64 of its unscaled big-endian integer ({"scale", "value"} where the
-- column has no scale of its own). More digits than the column's scale are refused, not rounded.
create or replace function decimal_cell(cell jsonb, form text, scale integer) returns numeric
language plpgsql immutable as $$
declare
  bytes bytea;
  n     numeric;
begin
  if jsonb_typeof(cell) = 'object' then
    n := decimal_cell(cell -> 'value', 'base64', (cell ->> 'scale')::integer);
  elsif form = 'text' or jsonb_typeof(cell) <> 'string' then
    n := (cell #>> '{}')::numeric;
  else
    bytes := decode(cell #>> '{}', 'base64');
    n := case when get_byte(bytes, 0) > 127 then -1 else 0 end;
    for i in 0 .. length(bytes) - 1 loop
      n := n * 256 + get_byte(bytes, i);
    end loop;
    n := (n || 'e' || -scale)::numeric;
  end if;
  if scale is not null and min_scale(n) > greatest(scale, 0) then
    raise exception 'a decimal has more than % digits after the point', scale using errcode = 'numeric_value_out_of_range';
  end if;
  return n;
end $$;

-- A timestamp without time zone: microseconds since 1970, milliseconds where the column has at most 3 digits.
-- In two exact steps, as a single multiplied interval would go through a double; the two numbers are Debezium's infinities.
create or replace function timestamp_cell(cell jsonb, digits integer) returns timestamp
language sql immutable as $$
  select case n when 9223372036825200000 then 'infinity' when -9223372036832400000 then '-infinity'
         else timestamp '1970-01-01' + (n / 1000000) * interval '1 second' + (n % 1000000) * interval '1 microsecond' end
  from (select (cell #>> '{}')::bigint * case when digits <= 3 then 1000 else 1 end) as micros(n)
$$;

-- A text: a number is not one.
create or replace function text_cell(cell jsonb) returns text
language plpgsql immutable as $$
begin
  if jsonb_typeof(cell) not in ('string', 'null') then
    raise exception 'a text column got a JSON %', jsonb_typeof(cell) using errcode = 'datatype_mismatch';
  end if;
  return cell #>> '{}';
end $$;

-- The SQL that reads one cell. `cell` is an SQL expression of type jsonb.
create or replace function cell_expression(cell text, type regtype, modifier integer, decimal_form text) returns text
language sql stable as $$
  select case type
    when 'numeric'::regtype then
      format('decimal_cell(%s, %L, %L)', cell, decimal_form, case when modifier >= 0 then (modifier - 4) & 2047 end)
    when 'text'::regtype then format('text_cell(%s)', cell)
    when 'bytea'::regtype then format('decode(%s #>> ''{}'', ''base64'')', cell)
    when 'date'::regtype then format('date ''1970-01-01'' + (%s #>> ''{}'')::integer', cell)
    when 'timestamp'::regtype then format('timestamp_cell(%s, %s)', cell, case when modifier >= 0 then modifier else 6 end)
    else format('(%s #>> ''{}'')::%s', cell, type)
  end
$$;

-- Raised from within the MERGE: a row that is new to the replica lacks a cell.
create or replace function missing_cell(column_name text, "partition" integer, "offset" bigint) returns text
language plpgsql volatile as $$
begin
  raise exception 'partition %, offset %: column % was not sent, and the replica has no value to keep',
    "partition", "offset", column_name using errcode = 'not_null_violation';
end $$;

-- -------------------------------------------------------------------------------------------------- the MERGE

-- The row image that a run of one key's events leaves, oldest first: an insert or a snapshot row starts anew, an
-- update lays its cells over what was known, a delete keeps it.
create or replace function fold_image(known jsonb, kind text, image jsonb) returns jsonb
language sql immutable as $$
  select case kind when 'd' then known when 'u' then known || image else image end
$$;

create or replace aggregate folded(kind text, image jsonb) (sfunc = fold_image, stype = jsonb, initcond = '{}');

-- Null-safe equality; plain where the column cannot be null, as only that can use the index.
create or replace function same_key(target text, key text, required boolean) returns text
language sql immutable as $$
  select format(case when required then 't.%s = %s' else 't.%s is not distinct from %s' end, target, key)
$$;

-- The MERGE of one replica, as text, over the temporary table `batch`; $1 and $2 are the floor's anchor and LSN.
-- An event counts only if it is newer than its stored row, or above the floor where the key is absent: also for the
-- folding of cells, as a stale event must not lend a cell to a fresh one.
create or replace function merge_statement(for_topic text) returns text
language sql stable as $$
  with columns as (
    select c.column_name as name, c.ordinal, k.nth, c.required, quote_ident(c.column_name) as target,
           'k' || k.nth as key,
           cell_expression(format('(b.key -> %L)', c.column_name), c.type, c.modifier, r.decimal_form) as key_cell,
           format('case when s.image ? %L then %s', c.column_name,
                  cell_expression(format('(s.image -> %L)', c.column_name), c.type, c.modifier, r.decimal_form)) as cell,
           format('missing_cell(%L, s."partition", s."offset")::%s', c.column_name, c.type) as missing
    from replica_tables r
    cross join replica_columns(r.relation) c
    left join unnest(r.key_columns) with ordinality as k(name, nth) on k.name = c.column_name
    where r.topic = for_topic
  )
  select format($merge$
merge into %1$s as t
using (
  select %2$s, folded(b.kind, b.image order by b.anchor, b.lsn, b."partition", b."offset") as image,
         bool_or(b.kind in ('r', 'c')) as inserted, bool_or(b.kind = 'd') as passed_delete,
         bool_or(b.kind = 'd') filter (where b.newest) as deleted,
         max(b.anchor) filter (where b.newest) as anchor, max(b.lsn) filter (where b.newest) as lsn,
         max(b."partition") filter (where b.newest) as "partition", max(b."offset") filter (where b.newest) as "offset"
  from (select b.*, %3$s from batch b where b.in_order) b
  left join %1$s t on %4$s
  where (b.anchor, b.lsn) > (coalesce(t.source_anchor, $1), coalesce(t.source_lsn, $2))
  group by b.key, %2$s
) as s on %5$s
when matched and (s.anchor, s.lsn) > (t.source_anchor, t.source_lsn) then
  update set %6$ssource_lsn = s.lsn, source_anchor = s.anchor, is_deleted = s.deleted
when not matched and (s.anchor, s.lsn) > ($1, $2) then
  insert (%7$s, source_lsn, source_anchor, is_deleted)
  values (%8$s, s.lsn, s.anchor, s.deleted)$merge$,
    r.relation,
    (select string_agg('b.' || key, ', ' order by nth) from columns where nth is not null),
    (select string_agg(key_cell || ' as ' || key, ', ' order by nth) from columns where nth is not null),
    (select string_agg(same_key(target, 'b.' || key, required), ' and ' order by nth) from columns where nth is not null),
    (select string_agg(same_key(target, 's.' || key, required), ' and ' order by nth) from columns where nth is not null),
    (select string_agg(format(E'%1$s = %2$s when s.deleted or not s.inserted then t.%1$s else %3$s end,\n             ',
                              target, cell, missing), '' order by ordinal) from columns where nth is null),
    (select string_agg(target, ', ' order by ordinal) from columns),
    (select string_agg(case when nth is not null then 's.' || key
                            else format('%s when s.passed_delete then null else %s end', cell, missing) end,
                       E',\n          ' order by ordinal) from columns))
  from replica_tables r where r.topic = for_topic
$$;

-- Applies the messages of a range of offsets (both ends included) as one batch, of every partition or of one, and
-- gives what became of them: received = merged + superseded + guarded + no_change. `rows_changed` counts rows of the
-- replica. A range may be applied again at any time, and then changes nothing; a range beyond the checkpoint that
-- leaves messages out is refused, and so is any message that cannot be decoded.
create or replace procedure apply_messages(
  for_topic text, from_offset bigint, to_offset bigint, only_partition integer default null,
  inout received bigint default null, inout merged bigint default null, inout superseded bigint default null,
  inout guarded bigint default null, inout no_change bigint default null, inout rows_changed bigint default null)
language plpgsql
set jit = off  -- compiling the plan takes longer than a batch
as $$
declare
  replica   replica_tables;
  bad       record;
  newest    bigint;
  truncates bigint;
  cut       record;  -- the newest truncate of the batch
  cut_rows  bigint := 0;
begin
  -- The lock makes two callers take turns.
  select * into replica from replica_tables where topic = for_topic for update;
  if not found then
    raise exception 'topic % has no replica: call create_replica first', for_topic;
  end if;

  select s."partition", s.next_offset into bad
  from apply_state s
  join messages m on m.topic = s.topic and m."partition" = s."partition"
                 and m."offset" >= s.next_offset and m."offset" < from_offset
  where s.topic = for_topic and (only_partition is null or s."partition" = only_partition)
  limit 1;
  if found then
    raise exception 'topic %, partition %: the range starts at offset %, but offset % is the next to apply',
      for_topic, bad."partition", from_offset, bad.next_offset;
  end if;

  if to_regclass('pg_temp.batch') is null then
    create temporary table batch (
      "partition" integer, "offset" bigint, kind text, key jsonb, image jsonb, anchor bigint, lsn bigint,
      greatest_snapshot bigint, problem text, in_order boolean, newest boolean) on commit delete rows;
  end if;
  delete from batch;

  -- Newest per key: the greatest pair, and of equal pairs the greatest offset. `in_order` leaves out what came after a
  -- newer event of its key, so that a batch leaves the same row as its messages one by one.
  insert into batch
  select d.*,
         d.kind in ('r', 'c', 'u', 'd') and array[d.anchor, d.lsn] = max(array[d.anchor, d.lsn]) over arrival,
         d.kind in ('r', 'c', 'u', 'd') and row_number() over newest_first = 1
  from decoded_messages(for_topic, from_offset, to_offset, only_partition) d
  window arrival as (partition by d.kind in ('r', 'c', 'u', 'd'), d.key order by d."partition", d."offset"),
         newest_first as (partition by d.kind in ('r', 'c', 'u', 'd'), d.key
                          order by d.anchor desc, d.lsn desc, d."partition" desc, d."offset" desc);

  select b."partition", b."offset", b.problem into bad
  from batch b where b.problem is not null order by b."offset", b."partition" limit 1;
  if found then
    raise exception 'topic %, partition %, offset %: %', for_topic, bad."partition", bad."offset", bad.problem
      using errcode = 'data_exception';
  end if;

  select count(*), count(*) filter (where b.newest), count(*) filter (where b.kind = 't'),
         count(*) filter (where b.kind not in ('r', 'c', 'u', 'd', 't'))
  into received, newest, truncates, no_change
  from batch b;

  -- A truncate comes before the rows: it soft-deletes what is older and raises the floor, so an older event of the
  -- same batch is refused by the guard, and a newer one is merged over it. Its own effect does not depend on the floor.
  merged := 0;
  if truncates > 0 then
    select b.anchor, b.lsn into cut from batch b where b.kind = 't' order by b.anchor desc, b.lsn desc limit 1;
    execute format('update %s set is_deleted = true, source_anchor = $1, source_lsn = $2
                    where (source_anchor, source_lsn) < ($1, $2)', replica.relation) using cut.anchor, cut.lsn;
    get diagnostics cut_rows = row_count;
    if (cut.anchor, cut.lsn) > (replica.floor_anchor, replica.floor_lsn) then
      replica.floor_anchor := cut.anchor;
      replica.floor_lsn := cut.lsn;
      update replica_tables set floor_anchor = cut.anchor, floor_lsn = cut.lsn where topic = for_topic;
      merged := 1;
    elsif cut_rows > 0 then
      merged := 1;
    end if;
  end if;

  execute merge_statement(for_topic) using replica.floor_anchor, replica.floor_lsn;
  get diagnostics rows_changed = row_count;

  merged := merged + rows_changed;
  rows_changed := rows_changed + cut_rows;
  superseded := received - no_change - newest - least(truncates, 1);
  guarded := newest + least(truncates, 1) - merged;

  insert into apply_state as s
  select for_topic, b."partition", max(b."offset") + 1, max(b.greatest_snapshot) from batch b group by b."partition"
  on conflict (topic, "partition") do update
  set next_offset = greatest(s.next_offset, excluded.next_offset),
      greatest_snapshot = greatest(s.greatest_snapshot, excluded.greatest_snapshot);
end $$;

-- Everything again, from the earliest offset: `rows_changed` is the proof that a replay changes nothing.
create or replace procedure replay_messages(
  for_topic text, inout received bigint default null, inout rows_changed bigint default null)
language plpgsql as $$
declare
  first_offset bigint;
  last_offset  bigint;
  merged bigint; superseded bigint; guarded bigint; no_change bigint;
begin
  select min(m."offset"), max(m."offset") into first_offset, last_offset from messages m where m.topic = for_topic;
  call apply_messages(for_topic, first_offset, last_offset, null,
                      received, merged, superseded, guarded, no_change, rows_changed);
end $$;
