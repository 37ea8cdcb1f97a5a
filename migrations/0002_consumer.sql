-- How far each consumer group has come.
create schema consumer;

create table consumer.checkpoint (
  next_offset bigint,
  high_water bigint,
  epoch bigint not null,
  generation bigint not null default 1,
  records bigint not null default 0,
  updated_at timestamptz not null default now(),
  partition integer not null,
  group_id text collate "C" not null,
  topic text collate "C" not null,
  owner text not null,
  -- The row of a partition: read and moved with every batch.
  constraint checkpoint_pkey primary key (group_id, topic, partition),
  -- Passed by the checkpoint means below high_water, so it can never be behind next_offset.
  constraint checkpoint_high_water check (
    next_offset is null or (next_offset >= 0 and high_water is not null and high_water >= next_offset)
  )
  -- Every batch rewrites its row and no indexed column: room on the page keeps that a heap-only update.
) with (fillfactor = 50);

comment on table consumer.checkpoint is 'Per group and partition: what was consumed, and who may go on.';
comment on column consumer.checkpoint.next_offset is
  'The offset to read next; never goes back within a generation. Null before the first batch.';
comment on column consumer.checkpoint.high_water is 'The highest next_offset there ever was; never goes back.';
comment on column consumer.checkpoint.epoch is
  'Raised by each take-over of the partition and checked by each write: the fence against a former owner.';
comment on column consumer.checkpoint.generation is 'Raised only by a restart of the group.';
comment on column consumer.checkpoint.records is 'Records consumed, repeats included.';
comment on column consumer.checkpoint.owner is 'The worker that took the partition over last.';
