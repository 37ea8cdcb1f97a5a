-- Which log a checkpoint's offsets are of. A topic that is deleted and made anew has the same name and other records at the same
-- offsets; once its log is longer than the old one was, offsets alone do not tell them apart.

alter table consumer.checkpoint
  add column log_id text collate "C",
  add column log_since timestamptz not null default '-infinity';

comment on column consumer.checkpoint.log_id is
  'The id that Kafka gave the topic when it was made. Null: not known yet, and taken from the log that is read next. Empty: a log '
  'that ended below next_offset was met, and nothing is read until a person has said what it is.';
comment on column consumer.checkpoint.log_since is
  'Since when this log is read; what was recorded before is of the log before it, at the same offsets.';
comment on column consumer.checkpoint.next_offset is
  'The offset to read next; never goes back within a generation. Null before the first batch.';
comment on column consumer.checkpoint.high_water is
  'The highest next_offset there ever was on this log; goes back only where another log begins.';

-- By the clock that log_since is told by: time is the worker's. What is there is of the first log of all.
alter table consumer.dead_letter add column recorded_at timestamptz not null default now();
comment on column consumer.dead_letter.recorded_at is 'When the transaction began that wrote the row.';

-- As in 0009; but where another log begins, high_water goes back: the rows of the era that ends are below the old one.
create or replace function events.begin_rollup_era() returns trigger language plpgsql as $$
declare
  place constant consumer.checkpoint := case when tg_op = 'DELETE' then old else new end;
  moment constant timestamptz := clock_timestamp();
  is_first constant boolean := not exists (
    select from events.rollup_era as era where era.topic = place.topic and era.partition = place.partition
  );
begin
  update events.rollup_era as era
  set until = moment, end_offset = greatest(era.next_offset, place.high_water, old.high_water, (
    select max(high_water) from consumer.checkpoint where topic = place.topic and partition = place.partition
  ))
  where era.topic = place.topic and era.partition = place.partition and end_offset is null;
  if tg_op <> 'DELETE' then
    insert into events.rollup_era (group_id, topic, partition, next_offset, since)
    values (place.group_id, place.topic, place.partition, case when is_first then 0 else coalesce(place.next_offset, 0) end,
      case when is_first then '-infinity' else moment end);
  end if;
  return null;
end $$;
