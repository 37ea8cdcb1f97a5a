-- What Search and Tail find events by. docs/decisions/persist-speed.md has the figures behind it.

-- The deduplication key is the same, but begins with the time: rows come in nearly in its order, so that the pages that an
-- insert touches stay few however many rows there are. By (source, id) every insert met a page of its own.
alter table events.event drop constraint event_pkey;
alter table events.event add constraint event_pkey primary key (occurred_at, source, id);

alter table events.event add column terms integer[];
comment on column events.event.terms is
  'Hashes of what the event can be found by, made by the worker (core/terms.ts). Null: stored before there were any.';

-- Every condition with a value, every word, and GetEvent by (source, id): the rows that have all of some terms, to be checked
-- on the row itself. An insert only appends to the pending list, which the index role merges every second; the limit (in kB) is
-- out of reach, since a writer that reached it would merge the list itself.
create index event_terms_idx on events.event using gin (terms) with (fastupdate = on, gin_pending_list_limit = 2097151);

-- GetEvent of what was stored before there were terms. Costs nothing for other rows: they are not in it.
create index event_termless_idx on events.event (source, id) where terms is null;

-- Tail reads the rows of a partition from an offset on; the audit counts those of a range.
create index event_log_idx on events.event (partition, "offset");
