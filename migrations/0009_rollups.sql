-- Sums of events by hour, for overviews and wide histograms. What they are worth lies in this: at any moment the sums and the
-- rows that no era has come to yet are together exactly the rows of events.event (postgres/roll-up.ts).

create table events.rollup (
  hour timestamptz not null,
  count bigint not null,
  severity smallint not null,
  type text collate "C" not null,
  source text collate "C" not null,
  -- Adding to a sum; the sums of a range of hours.
  constraint rollup_pkey primary key (hour, type, source, severity)
  -- The sums of the present are rewritten every few seconds and no indexed column of them: room keeps that heap-only.
) with (fillfactor = 60);

comment on table events.rollup is 'How many rows events.event has of each hour, type, source and range of severity.';
comment on column events.rollup.hour is 'The start of the hour of occurred_at, UTC.';
comment on column events.rollup.severity is
  'The range: 1 TRACE, 2 DEBUG, 3 INFO, 4 WARN, 5 ERROR, 6 FATAL; 0: without severity.';
comment on column events.rollup.type is 'Empty: of types that are not kept apart, since the hour has too many.';
comment on column events.rollup.source is 'Empty: of sources that are not kept apart, since the hour has too many.';

-- How far the rows have been summed up. Of one partition of the log no offset has two rows, as long as its group neither goes
-- back nor meets another log; so each such stretch of time is an era of its own, and a row belongs to the era in which it was
-- stored. Eras that are over stay: with them the sums can be made anew.
create table events.rollup_era (
  era bigint generated always as identity constraint rollup_era_pkey primary key,
  next_offset bigint not null,
  end_offset bigint,
  since timestamptz not null,
  until timestamptz not null default 'infinity',
  summed_at timestamptz,
  partition integer not null,
  group_id text collate "C" not null,
  topic text collate "C" not null
);

comment on table events.rollup_era is 'Where the sums of events.rollup have come to in the rows of each partition of the log.';
comment on column events.rollup_era.next_offset is 'The rows of the era below it are in the sums.';
comment on column events.rollup_era.end_offset is
  'One past the last row of the era; null while it goes on: then it is the next_offset of its checkpoint.';
comment on column events.rollup_era.since is 'With until: when the transactions began that stored the rows of the era.';
comment on column events.rollup_era.summed_at is 'What was stored by then is in the sums; null: not all of it was ever.';

-- One era of a partition goes on; the sums, its end.
create unique index rollup_era_open_idx on events.rollup_era (topic, partition) where end_offset is null;

-- An era ends where a group goes back (generation is raised by that alone), where a checkpoint is removed, and where another
-- group takes a topic over. The checkpoint's row is locked while this runs: the last batch of the old era began before, and the
-- first of the new one will begin after.
create function events.begin_rollup_era() returns trigger language plpgsql as $$
declare
  place constant consumer.checkpoint := case when tg_op = 'DELETE' then old else new end;
  moment constant timestamptz := clock_timestamp();
  is_first constant boolean := not exists (
    select from events.rollup_era as era where era.topic = place.topic and era.partition = place.partition
  );
begin
  update events.rollup_era as era
  set until = moment, end_offset = greatest(era.next_offset, place.high_water, (
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

create trigger rollup_era after insert or delete or update of generation on consumer.checkpoint
for each row execute function events.begin_rollup_era();

-- What was stored before is one era, whose rows wait to be summed up.
insert into events.rollup_era (group_id, topic, partition, next_offset, since)
select distinct on (topic, partition) group_id, topic, partition, 0, '-infinity'
from consumer.checkpoint order by topic, partition, updated_at desc;
