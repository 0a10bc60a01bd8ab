-- How far each logical slot is behind, on the source:  psql -d shop -f sql/slot_lag.sql
--
-- retained_bytes       WAL that the slot keeps on the source's disk. It grows while the consumer is away.
-- confirmed_lag_bytes  WAL written since the position that the consumer confirmed: its lag.
-- wal_status           reserved, extended (past max_wal_size), unreserved (soon removed), lost (a new snapshot is needed).
-- safe_wal_size        bytes that may still be written before the slot can be lost; null without max_slot_wal_keep_size.
select s.slot_name,
       s.active,
       pg_wal_lsn_diff(now_at.lsn, s.restart_lsn)         as retained_bytes,
       pg_wal_lsn_diff(now_at.lsn, s.confirmed_flush_lsn) as confirmed_lag_bytes,
       s.wal_status,
       s.safe_wal_size
from pg_replication_slots s
cross join (select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn) now_at
where s.slot_type = 'logical'
order by retained_bytes desc nulls first, s.slot_name;
