-- The columns of some tables. `base` follows each domain down to the type that it is made of, and takes the first modifier
-- on the way.
with recursive base (attrelid, attnum, type, modifier) as (
  select attrelid, attnum, atttypid, atttypmod
  from pg_catalog.pg_attribute where attrelid = any ($1) and attnum > 0 and not attisdropped
  union all
  select b.attrelid, b.attnum, t.typbasetype, case b.modifier when -1 then t.typtypmod else b.modifier end
  from base b join pg_catalog.pg_type t on t.oid = b.type where t.typtype = 'd'
)
select a.attrelid as relation, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) as type_text,
       n.nspname as type_schema, coalesce(e.typname, t.typname) as type_name,
       coalesce(e.typtype, t.typtype)::text as type_kind,
       case when e.oid is not null then greatest(a.attndims::int, 1) end as dimensions,
       nullif(b.modifier, -1) as modifier, a.attnotnull, a.atthasdef and a.attgenerated = '' as has_default,
       a.attgenerated <> '' as generated, a.attstorage <> 'p' as toastable,
       coalesce(l.collprovider = 'c' and l.collcollate in ('C', 'POSIX') or l.collprovider = 'd' and d.by_bytes, false) as by_bytes,
       pg_catalog.col_description(a.attrelid, a.attnum) as comment
from base b
join pg_catalog.pg_attribute a using (attrelid, attnum)
join pg_catalog.pg_type t on t.oid = b.type and t.typtype <> 'd'
left join pg_catalog.pg_type e on e.oid = t.typelem and t.typinput = 'pg_catalog.array_in'::pg_catalog.regproc
left join pg_catalog.pg_collation l on l.oid = a.attcollation
-- before version 15, each database had the system's collations
cross join (
  select datcollate in ('C', 'POSIX') and coalesce(to_jsonb(b) ->> 'datlocprovider', 'c') = 'c' as by_bytes
  from pg_catalog.pg_database b where datname = current_database()
) d
join pg_catalog.pg_namespace n on n.oid = coalesce(e.typnamespace, t.typnamespace)
order by a.attrelid, a.attnum
