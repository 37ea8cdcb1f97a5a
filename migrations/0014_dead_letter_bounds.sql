-- The index of the dead letters keeps the beginning of long texts, as new rows have them (postgres/record-values.ts): a
-- record may have megabytes of them, and a page of two hundred is answered in one message. What is left ends with "…", so
-- that it equals no text within the bound.

create function pg_temp.cut(text, bytes integer) returns text language sql immutable as $$
  select left($1, case when octet_length(left($1, bytes)) = bytes then bytes else bytes / 4 end) || '…'
$$;

update consumer.dead_letter set
  source = case when octet_length(source) > 1024 then pg_temp.cut(source, 1024) else source end,
  id = case when octet_length(id) > 512 then pg_temp.cut(id, 512) else id end,
  type = case when octet_length(type) > 256 then pg_temp.cut(type, 256) else type end,
  subject = case when octet_length(subject) > 1024 then pg_temp.cut(subject, 1024) else subject end,
  principal = case when octet_length(principal) > 1024 then pg_temp.cut(principal, 1024) else principal end,
  detail = case when octet_length(detail) > 2048 then pg_temp.cut(detail, 2048) else detail end
where octet_length(source) > 1024 or octet_length(id) > 512 or octet_length(type) > 256 or octet_length(subject) > 1024
  or octet_length(principal) > 1024 or octet_length(detail) > 2048;

update consumer.foreign_letter set why = pg_temp.cut(why, 2048) where octet_length(why) > 2048;

comment on column consumer.dead_letter.event_time is
  'With source, id, type, subject: of the event, where the record had one; texts are cut after what Weir takes in (1024, 512, 256, 1024 bytes).';

drop function pg_temp.cut;
