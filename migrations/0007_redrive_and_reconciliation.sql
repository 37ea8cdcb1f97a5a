-- What redrives and the upkeep of the dead letters' index remember beside what 0003 has.

alter table admin.redrive add column failures integer not null default 0;
comment on column admin.redrive.failures is 'Chunks in a row that were not done; 0 after one that was.';
comment on column admin.redrive.lease_until is
  'Until then nobody takes it over: its owner is at work, or, without an owner, it waits after a failure.';
comment on column admin.redrive.state is
  'RUNNING: a worker runs it, or will. PAUSED. COMPLETED, CANCELLED: ended, with ended_at.';

-- How far the dead-letter topic has been read to put the index right.
create table consumer.letter_scan (
  next_offset bigint not null,
  began_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  partition integer not null,
  topic text collate "C" not null,
  -- One position a partition.
  constraint letter_scan_pkey primary key (topic, partition)
);

comment on table consumer.letter_scan is
  'Where the reconciliation of consumer.dead_letter with the dead-letter topic has come to; without a row it begins at the log''s start.';
comment on column consumer.letter_scan.began_at is 'When it was at the log''s start; a day later it begins there anew.';

-- Retention: repeats that are older. Rows come in the order of their time, so a few bytes for each stretch of pages do.
create index duplicate_recorded_idx on events.duplicate using brin (recorded_at);
