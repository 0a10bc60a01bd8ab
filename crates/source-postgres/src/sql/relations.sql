-- Every table that can be published: ordinary ones, partitioned ones, and partitions with their root.
select c.oid, n.nspname, c.relname, c.relkind = 'p' as partitioned, c.relreplident::text as replica_identity,
       pg_catalog.obj_description(c.oid, 'pg_class') as comment,
       case when c.relispartition then pg_catalog.pg_partition_root(c.oid)::oid end as root
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence = 'p'
  and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
order by n.nspname collate "C", c.relname collate "C"
