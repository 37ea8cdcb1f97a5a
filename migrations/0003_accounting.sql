-- What became of each record that is no row: with these, every offset below a checkpoint's high_water is accounted for.
--
-- As in events.event there are no checks on what a record brings along: a row that PostgreSQL refuses must not stop a
-- partition. Text is cut to what an index of its own can hold, or is in no btree.

-- The index of the dead letters, by where the record stands that failed. The dead-letter topic is the truth.
create table consumer.dead_letter (
  time timestamptz not null,
  record_time timestamptz not null,
  event_time timestamptz,
  replayed_at timestamptz,
  "offset" bigint not null,
  letter_offset bigint,
  partition integer not null,
  letter_partition integer,
  attempt integer not null,
  replays integer not null default 0,
  value_size integer,
  group_id text collate "C" not null,
  topic text collate "C" not null,
  letter_topic text collate "C" not null,
  reason text collate "C" not null,
  detail text collate "C" not null,
  source text collate "C",
  id text collate "C",
  type text collate "C",
  subject text collate "C",
  principal text collate "C",
  preview bytea,
  -- One row for each record that failed, however often its letter was written; GetDeadLetter; the audit of a range.
  constraint dead_letter_pkey primary key (group_id, topic, partition, "offset")
);

comment on table consumer.dead_letter is
  'Each record that could not be stored, written with the batch that passed it; the dead-letter topic has it whole.';
comment on column consumer.dead_letter.time is 'When the record was set aside: the time of its letter.';
comment on column consumer.dead_letter.record_time is 'The record''s own timestamp.';
comment on column consumer.dead_letter.event_time is 'With source, id, type, subject: of the event, where the record had one.';
comment on column consumer.dead_letter."offset" is 'With topic and partition: where the record stands on the log.';
comment on column consumer.dead_letter.letter_offset is
  'With letter_topic and letter_partition: where the letter stands in the dead-letter topic; null where that is not known.';
comment on column consumer.dead_letter.attempt is 'Which replay of a record this was: 0 for the record as it first came.';
comment on column consumer.dead_letter.replays is 'How often the letter has been replayed since.';
comment on column consumer.dead_letter.replayed_at is 'When it was replayed last; null: never.';
comment on column consumer.dead_letter.value_size is 'Bytes of the record''s value; null of a record without one.';
comment on column consumer.dead_letter.detail is 'What was wrong, for a person.';
comment on column consumer.dead_letter.principal is 'The subject of the sender''s token, where the record names one.';
comment on column consumer.dead_letter.preview is 'The first 512 bytes of the value at most.';

-- Listing: a page of a group's dead letters, newest first, from a cursor on.
create index dead_letter_page_idx on consumer.dead_letter (group_id, time desc, topic, partition, "offset");

-- The journey of an event: its dead letters by its name. A hash, since an id too long for a btree is one reason to be here.
create index dead_letter_event_idx on consumer.dead_letter using hash (id) where id is not null;

-- What others wrote to a dead-letter topic, and what cannot be read there: listed, never hidden.
create table consumer.foreign_letter (
  time timestamptz not null,
  "offset" bigint not null,
  partition integer not null,
  value_size integer,
  topic text collate "C" not null,
  why text collate "C" not null,
  key_preview bytea,
  preview bytea,
  -- One row a record; listing by position.
  constraint foreign_letter_pkey primary key (topic, partition, "offset")
);

comment on table consumer.foreign_letter is 'Records of a dead-letter topic that are no dead letters of Weir''s.';
comment on column consumer.foreign_letter.time is 'The record''s own timestamp.';
comment on column consumer.foreign_letter.why is 'Why it is no dead letter, for a person.';

-- Each record whose event was there already, from another record.
create table events.duplicate (
  occurred_at timestamptz not null,
  recorded_at timestamptz not null default now(),
  "offset" bigint not null,
  partition integer not null,
  differs boolean not null,
  topic text collate "C" not null,
  source text collate "C" not null,
  id text collate "C" not null,
  -- One row a record, however often it is read; the audit of a range.
  constraint duplicate_pkey primary key (topic, partition, "offset")
);

comment on table events.duplicate is 'Records whose (source, id, time) had a row from a record elsewhere on the log.';
comment on column events.duplicate."offset" is 'With topic and partition: where the repeat stands on the log.';
comment on column events.duplicate.differs is
  'Whether its payload or any attribute is not the one of the row: a conflict, the producer gave two events one name.';

-- The journey of an event: its repeats by its name.
create index duplicate_event_idx on events.duplicate (source, id);

-- Ranges of offsets below a checkpoint that brought no record to this database.
create table consumer.skip (
  from_offset bigint not null,
  to_offset bigint not null,
  recorded_at timestamptz not null default now(),
  partition integer not null,
  group_id text collate "C" not null,
  topic text collate "C" not null,
  kind text collate "C" not null,
  -- One row a range; the audit of a range.
  constraint skip_pkey primary key (group_id, topic, partition, from_offset),
  constraint skip_range check (from_offset < to_offset)
);

comment on table consumer.skip is 'Offsets that a checkpoint passed without a record, and why.';
comment on column consumer.skip.to_offset is 'One past the last.';
comment on column consumer.skip.kind is
  'NO_RECORD: control records, aborted transactions, compaction. LOST: they left the log before they were read. '
  'ELSEWHERE: a group without a checkpoint here began at the offset that it had committed. RESTART: a restart passed them.';

-- What people did through the admin services.
create schema admin;

create table admin.audit_entry (
  -- Listing: newest first, from a cursor on.
  id bigint generated always as identity constraint audit_entry_pkey primary key,
  time timestamptz not null default now(),
  dry_run boolean not null,
  principal text collate "C" not null,
  method text collate "C" not null,
  resource text collate "C" not null,
  result text collate "C" not null,
  detail jsonb not null default '{}'
);

comment on table admin.audit_entry is 'Every call of an admin method that writes, dry runs included.';
comment on column admin.audit_entry.principal is 'The subject of the caller''s token.';
comment on column admin.audit_entry.method is 'The full name of the RPC: weir.admin.v1.Service/Method.';
comment on column admin.audit_entry.resource is 'The name of what it was about.';
comment on column admin.audit_entry.result is 'STARTED, OK, or the reason of the refusal.';
comment on column admin.audit_entry.detail is
  'The request''s salient fields and the counts of what was done; never a payload or a token.';

-- Bulk replays of dead letters, each run by one worker at a time.
create table admin.redrive (
  started_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  ended_at timestamptz,
  lease_until timestamptz,
  snapshot_time timestamptz not null,
  cursor_time timestamptz,
  cursor_offset bigint,
  epoch bigint not null default 0,
  cursor_partition integer,
  max_per_second integer not null,
  dry_run boolean not null,
  id text collate "C" not null,
  group_id text collate "C" not null,
  state text collate "C" not null,
  filter text collate "C" not null,
  reason text collate "C",
  cursor_topic text collate "C",
  started_by text collate "C" not null,
  owner text collate "C",
  error text collate "C",
  counts jsonb not null default '{}',
  -- Getting one by its name.
  constraint redrive_pkey primary key (id)
);

comment on table admin.redrive is 'Bulk replays of dead letters, with how far each has come.';
comment on column admin.redrive.snapshot_time is 'Only letters set aside before it are taken: a redrive ends.';
comment on column admin.redrive.cursor_time is
  'With cursor_topic, cursor_partition and cursor_offset: the last letter of the last chunk that is done; null before the first.';
comment on column admin.redrive.counts is 'Letters by outcome.';
comment on column admin.redrive.reason is 'The reason of the letters to take; null: any.';
comment on column admin.redrive.started_by is 'The subject of the caller''s token.';
comment on column admin.redrive.owner is 'The worker that runs it, until lease_until.';
comment on column admin.redrive.epoch is 'Raised by each worker that takes it over and checked by each write.';
comment on column admin.redrive.error is 'Why it failed or waits, for a person.';

-- One at a time for a group: a second one is refused while the first has not ended.
create unique index redrive_open_idx on admin.redrive (group_id) where ended_at is null;

-- Listing: newest first, from a cursor on.
create index redrive_page_idx on admin.redrive (started_at desc, id);
