-- What retention has taken out of events.event, by the log: of events from there on none is missing.

create table events.log_floor (
  next_offset bigint not null,
  receive_time timestamptz not null,
  partition integer not null,
  topic text collate "C" not null,
  -- One place a partition; tails that begin in the past, or have fallen behind.
  constraint log_floor_pkey primary key (topic, partition)
);

comment on table events.log_floor is
  'How far into each partition of the log retention has come: some events below next_offset are gone.';
comment on column events.log_floor.next_offset is 'One past the last event that was taken out.';
comment on column events.log_floor.receive_time is 'When that one was accepted.';
