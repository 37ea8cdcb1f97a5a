-- Sums of all events, by type and by source apart instead of by both together: what is asked of a long range reads a few sums
-- an hour instead of thousands. They are made anew from the rows, in the background.
drop table events.rollup;

create table events.rollup (
  hour timestamptz not null,
  count bigint not null,
  kind smallint not null,
  severity smallint not null,
  value text collate "C" not null,
  -- Adding to a sum; the sums of one kind for a range of hours.
  constraint rollup_pkey primary key (kind, hour, value, severity)
  -- The sums of the present are rewritten every few seconds and no indexed column of them: room keeps that heap-only.
) with (fillfactor = 60);

comment on table events.rollup is
  'How many rows events.event has of each hour and range of severity: in all, of each type, and of each source.';
comment on column events.rollup.hour is 'The start of the hour of occurred_at, UTC.';
comment on column events.rollup.kind is '0: of all events; 1: of those of a type; 2: of those of a source.';
comment on column events.rollup.severity is
  'The range: 1 TRACE, 2 DEBUG, 3 INFO, 4 WARN, 5 ERROR, 6 FATAL; 0: without severity.';
comment on column events.rollup.value is
  'The type or the source; empty of those that are not kept apart, since the hour has too many, and of kind 0.';

update events.rollup_era set next_offset = 0, summed_at = null;
