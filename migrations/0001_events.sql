-- One row for each (source, id, time), in monthly partitions that postgres/partitions.ts makes.
--
-- Rows are inserted and never updated. Columns of fixed width come first, so that none is padded. Text is compared by
-- its bytes (collate "C") whatever the locale of the database, so that order and equality are the same everywhere. There
-- are no checks on purpose: what is stored was judged before, and a row that PostgreSQL refuses must not stop a partition.
create schema events;

create table events.event (
  occurred_at timestamptz not null,
  receive_time timestamptz not null,
  stored_at timestamptz not null default now(),
  "offset" bigint not null,
  partition integer not null,
  data_size integer not null,
  severity smallint,
  source text collate "C" not null,
  id text collate "C" not null,
  type text collate "C" not null,
  time_text text collate "C",
  subject text collate "C",
  dataschema text collate "C",
  datacontenttype text collate "C",
  data_type_url text collate "C",
  topic text collate "C" not null,
  principal text collate "C" not null,
  trace_parent text collate "C",
  trace_state text collate "C",
  tags text[] collate "C" not null,
  extensions jsonb not null,
  data bytea,
  -- The deduplication key, and the way to an event by its name: GetEvent reads (source, id) in every partition.
  constraint event_pkey primary key (source, id, occurred_at)
) partition by range (occurred_at);

comment on table events.event is 'Every stored event, one row for each (source, id, time).';
comment on column events.event.occurred_at is
  'The time attribute, cut to the microsecond; of an event without one, receive_time.';
comment on column events.event.receive_time is 'When the server accepted the event, in milliseconds.';
comment on column events.event.stored_at is 'When the transaction that stored the event began.';
comment on column events.event."offset" is 'With topic and partition: where the event stands on the log.';
comment on column events.event.data_size is 'Bytes of data; 0 for empty data and for none (then data is null).';
comment on column events.event.severity is 'OpenTelemetry severity number, 1 to 24.';
comment on column events.event.time_text is 'The time attribute as it was written; null where there is none.';
comment on column events.event.data_type_url is 'Of data that came as proto_data: its type URL.';
comment on column events.event.principal is 'The subject of the sender''s token.';
comment on column events.event.extensions is 'Extension attributes by name, each as its CloudEvents string.';
comment on column events.event.data is 'The payload, byte for byte.';

-- Where events fall whose month has no partition: none should, so rows here are a metric and an alarm.
create table events.event_default partition of events.event default;

-- Paging: SearchEvents reads (occurred_at, partition, "offset") from a cursor on, in either direction.
create index event_page_idx on events.event (occurred_at, partition, "offset");
