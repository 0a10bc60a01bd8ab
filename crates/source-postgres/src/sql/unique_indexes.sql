-- The unique indexes of some tables over plain columns, in the order of JDBC's getIndexInfo: the connector takes the first
-- one for the key of a table without a primary key.
select i.indrelid as relation, c.relname, i.indisprimary, i.indisreplident, i.indpred is not null as partial,
       array(select a.attname::text
             from pg_catalog.unnest(i.indkey::int2[]) with ordinality k (attnum, place)
             join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
             where k.place <= i.indnkeyatts order by k.place) as columns
from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
where i.indrelid = any ($1) and i.indisunique and i.indisvalid and i.indexprs is null
order by i.indrelid, i.indisclustered desc, c.relname collate "C"
